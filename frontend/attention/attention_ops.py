"""Defines the custom ops for attention that AOTAutograd keeps whole until the importer reads them.

    output, logsumexp = cuesta::attention(q, k, v, mask, causal, scale, route)
    dq, dk, dv = cuesta::attention_backward(grad, q, k, v, output, logsumexp, mask, causal, scale, route)

There are also these two with dropout, and two for ATen's efficient kernel (frontend/attention/efficient_attention.py).
`route` names the ATen kernel that does the work (cuesta/policy/attention_routes.py). The fake implementation runs that
kernel's fake implementation, so that shapes, strides and dtypes of the results match the kernel in every torch version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.policy.attention_routes import CUDNN_NO_DROPOUT
from cuesta.torch_private.ops import implementation

aten = torch.ops.aten

#: What a backward op takes first, in torch's schema language: the gradient, and what the forward op read and returned.
_SAVED = "Tensor grad, Tensor q, Tensor k, Tensor v, Tensor output, Tensor logsumexp"


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, p: float, route: str
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Output, logsumexp, and the seed and offset of the random numbers where the kernel returns them."""
    match route:
        case "cudnn":
            r = aten._scaled_dot_product_cudnn_attention(q, k, v, mask, True, p, causal, False, scale=scale)
            return r[0], r[1], r[6], r[7]
        case "flash":
            r = aten._scaled_dot_product_flash_attention(q, k, v, p, causal, False, scale=scale)
            return r[0], r[1], r[6], r[7]
        case "efficient":
            r = aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, p, causal, scale=scale)
            return r[0], r[1], r[2], r[3]
    r = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, p, causal, attn_mask=mask, scale=scale)
    # torch before 2.13 traces f32 for f64 as well, while its kernel gives f64.
    return r[0], r[1].to(torch.promote_types(q.dtype, torch.float32)), None, None


def _backward(
    saved: Sequence[Tensor],
    mask: Tensor | None,
    causal: bool,
    scale: float,
    p: float,
    route: str,
    seeds: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v; `saved` are the tensors of `_SAVED`."""
    lengths = (saved[1].shape[2], saved[2].shape[2])
    r: Any
    match route:
        case "cudnn":
            backward = aten._scaled_dot_product_cudnn_attention_backward
            r = backward(*saved, *seeds, mask, None, None, *lengths, p or CUDNN_NO_DROPOUT, causal, scale=scale)
        case "flash":
            backward = aten._scaled_dot_product_flash_attention_backward
            r = backward(*saved, None, None, *lengths, p, causal, *seeds, scale=scale)
        case "efficient":
            r = _efficient_backward(saved, mask, causal, scale, p, seeds, of_bias=False)
        case _:
            backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
            r = backward(*saved, p, causal, attn_mask=mask, scale=scale)
    return r[0], r[1], r[2]


def _laid_out(saved: Sequence[Tensor], route: str) -> Sequence[Tensor]:
    """The tensors of `_SAVED`, for cuDNN with the gradient in the output's dense strides. See CUDNN_NO_DROPOUT."""
    grad, output = saved[0], saved[4]
    if route != "cudnn" or grad.stride() == output.stride():
        return saved
    return (torch.empty_like(output).copy_(grad), *saved[1:])


def _efficient_backward(
    saved: Sequence[Tensor],
    bias: Tensor | None,
    causal: bool,
    scale: float,
    p: float,
    seeds: Sequence[Tensor],
    of_bias: bool,
) -> Any:
    *operands, output, logsumexp = saved
    backward = aten._scaled_dot_product_efficient_attention_backward
    wanted = [True, True, True, of_bias]
    return backward(*operands, bias, output, logsumexp, *seeds, p, wanted, causal, scale=scale)


def _for_efficient(seeds: Sequence[Tensor]) -> Sequence[Tensor]:
    """Seed and offset where the efficient kernel reads them: on the CPU, except within a CUDA graph."""
    return seeds if torch.cuda.is_current_stream_capturing() else [seed.cpu() for seed in seeds]


# -- without dropout ----------------------------------------------------------------------------
@torch.library.custom_op("cuesta::attention", mutates_args=())
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, route: str
) -> tuple[Tensor, Tensor]:
    """Attention without dropout, by the kernel of `route`: output and logsumexp."""
    output, logsumexp, _, _ = _forward(q, k, v, mask, causal, scale, 0.0, route)
    return output, logsumexp


@torch.library.custom_op(
    "cuesta::attention_backward",
    mutates_args=(),
    schema=f"({_SAVED}, Tensor? mask, bool causal, float scale, str route) -> (Tensor, Tensor, Tensor)",
)
def attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    *saved, mask, causal, scale, route = arguments
    return _backward_without_dropout(*_laid_out(saved, route), mask, causal, scale, route)


attention.register_fake(implementation(attention))


@attention_backward.register_fake
def _backward_without_dropout(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    *saved, mask, causal, scale, route = arguments
    # The kernels take seeds although they draw no random numbers here.
    nothing = saved[1].new_empty((), dtype=torch.int64)
    return _backward(saved, mask, causal, scale, 0.0, route, (nothing, nothing))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, mask, *ctx.numbers = inputs
    ctx.save_for_backward(q, k, v, output[0], output[1], mask, *output[2:])
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    *saved, mask = ctx.saved_tensors
    return (*attention_backward(grad, *saved, mask, *ctx.numbers), None, None, None, None)


attention.register_autograd(_differentiate, setup_context=_save)


# -- with dropout -------------------------------------------------------------------------------
@torch.library.custom_op("cuesta::dropout_attention", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def dropout_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, p: float, route: str, call: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention with dropout. `call` distinguishes calls on the same operands: each draws its own random numbers."""
    output, logsumexp, seed, offset = _forward(q, k, v, mask, causal, scale, p, route)
    assert seed is not None and offset is not None, f"route {route} has no dropout"
    # The efficient kernel leaves seed and offset on the CPU, except within a CUDA graph.
    return output, logsumexp, seed.to(q.device), offset.to(q.device)


@dropout_attention.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v, mask, causal, scale, p, route, _call = arguments
    output, logsumexp, _, _ = _forward(q, k, v, mask, causal, scale, p, route)
    kind, sizes = (torch.uint64, (2,)) if route == "flash" else (torch.int64, ())
    return output, logsumexp, q.new_empty(sizes, dtype=kind), q.new_empty((), dtype=kind)


@torch.library.custom_op(
    "cuesta::dropout_attention_backward",
    mutates_args=(),
    schema=(
        f"({_SAVED}, Tensor seed, Tensor offset, Tensor? mask, bool causal, float scale, float p, str route) "
        "-> (Tensor, Tensor, Tensor)"
    ),
)
def dropout_attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, with the same weights dropped as in the forward pass."""
    *saved, seed, offset, mask, causal, scale, p, route = arguments
    seeds = _for_efficient((seed, offset)) if route == "efficient" else (seed, offset)
    return _backward(_laid_out(saved, route), mask, causal, scale, p, route, seeds)


@dropout_attention_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    *saved, seed, offset, mask, causal, scale, p, route = arguments
    return _backward(saved, mask, causal, scale, p, route, (seed, offset))


def _differentiate_dropout(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    *saved, mask, seed, offset = ctx.saved_tensors
    *numbers, _call = ctx.numbers
    gradients = dropout_attention_backward(grad, *saved, seed, offset, mask, *numbers)
    return (*gradients, *(None,) * (1 + len(ctx.numbers)))


dropout_attention.register_autograd(_differentiate_dropout, setup_context=_save)


# -- as ATen calls its efficient kernel ---------------------------------------------------------
@torch.library.custom_op("cuesta::seeded_attention", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def seeded_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention with dropout by the efficient kernel; seed and offset are returned on the device of `q`."""
    output, logsumexp, seed, offset = _forward(q, k, v, bias, causal, scale, p, "efficient")
    assert seed is not None and offset is not None
    return output, logsumexp, seed.to(q.device), offset.to(q.device)


@torch.library.custom_op(
    "cuesta::biased_attention_backward",
    mutates_args=(),
    schema=(
        f"({_SAVED}, Tensor bias, Tensor seed, Tensor offset, bool causal, float scale, float p) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    ),
)
def biased_attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and of a bias that has the scores' shape."""
    *saved, bias, seed, offset, causal, scale, p = arguments
    seeds = _for_efficient((seed, offset)) if p else (seed, offset)
    dq, dk, dv, dbias = _efficient_backward(saved, bias, causal, scale, p, seeds, of_bias=True)
    return dq, dk, dv, dbias


@biased_attention_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *saved, bias, seed, offset, causal, scale, p = arguments
    dq, dk, dv, dbias = _efficient_backward(saved, bias, causal, scale, p, (seed, offset), of_bias=True)
    return dq, dk, dv, dbias


seeded_attention.register_fake(implementation(seeded_attention))
