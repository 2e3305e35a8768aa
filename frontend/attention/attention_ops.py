"""Defines the custom ops for attention that AOTAutograd keeps whole until the importer reads them.

    output, logsumexp = cuesta::attention(q, k, v, mask, causal, scale, route)
    dq, dk, dv = cuesta::attention_backward(grad, q, k, v, output, logsumexp, mask, causal, scale, route)

There are also these two with dropout, and two for ATen's efficient kernel (frontend/attention/efficient_attention.py).
`route` names the ATen kernel that does the work (cuesta/policy/attention_routes.py). The fake implementation runs that
kernel's fake implementation, so that shapes, strides and dtypes of the results match the kernel in every torch version.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.ops import implementation

aten = torch.ops.aten


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
    return r[0], r[1], None, None


def _backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    p: float,
    route: str,
    seeds: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    saved = (grad, q, k, v, output, logsumexp)
    lengths = (q.shape[2], k.shape[2])
    r: Any
    match route:
        case "cudnn":
            backward = aten._scaled_dot_product_cudnn_attention_backward
            r = backward(*saved, *seeds, mask, None, None, *lengths, p, causal, scale=scale)
        case "flash":
            backward = aten._scaled_dot_product_flash_attention_backward
            r = backward(*saved, None, None, *lengths, p, causal, *seeds, scale=scale)
        case "efficient":
            backward = aten._scaled_dot_product_efficient_attention_backward
            wanted = [True, True, True, False]
            r = backward(grad, q, k, v, mask, output, logsumexp, *seeds, p, wanted, causal, scale=scale)
        case _:
            backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
            r = backward(*saved, p, causal, attn_mask=mask, scale=scale)
    return r[0], r[1], r[2]


# -- without dropout ----------------------------------------------------------------------------
@torch.library.custom_op("cuesta::attention", mutates_args=())
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, route: str
) -> tuple[Tensor, Tensor]:
    """Attention without dropout, by the kernel of `route`: output and logsumexp."""
    output, logsumexp, _, _ = _forward(q, k, v, mask, causal, scale, 0.0, route)
    return output, logsumexp


@torch.library.custom_op("cuesta::attention_backward", mutates_args=())
def attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    route: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    # The kernels take seeds although they draw no random numbers here.
    nothing = q.new_empty((), dtype=torch.int64)
    saved = (grad, q, k, v, output, logsumexp)
    return _backward(*saved, mask, causal, scale, 0.0, route, (nothing, nothing))


attention.register_fake(implementation(attention))
attention_backward.register_fake(implementation(attention_backward))


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


@torch.library.custom_op("cuesta::dropout_attention_backward", mutates_args=())
def dropout_attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    seed: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    p: float,
    route: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, with the same weights dropped as in the forward pass."""
    if route == "efficient" and not torch.cuda.is_current_stream_capturing():
        seed, offset = seed.cpu(), offset.cpu()
    saved = (grad, q, k, v, output, logsumexp)
    return _backward(*saved, mask, causal, scale, p, route, (seed, offset))


@dropout_attention.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float, p: float, route: str, call: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    output, logsumexp, _, _ = _forward(q, k, v, mask, causal, scale, p, route)
    kind, sizes = (torch.uint64, (2,)) if route == "flash" else (torch.int64, ())
    return output, logsumexp, q.new_empty(sizes, dtype=kind), q.new_empty((), dtype=kind)


@dropout_attention_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    grad, q, k, v, output, logsumexp, seed, offset, mask, causal, scale, p, route = arguments
    return _backward(grad, q, k, v, output, logsumexp, mask, causal, scale, p, route, (seed, offset))


def _differentiate_dropout(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    q, k, v, output, logsumexp, mask, seed, offset = ctx.saved_tensors
    saved = (q, k, v, output, logsumexp)
    *numbers, _call = ctx.numbers
    return (
        *dropout_attention_backward(grad, *saved, seed, offset, mask, *numbers),
        *(None,) * (1 + len(ctx.numbers)),
    )


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


@torch.library.custom_op("cuesta::biased_attention_backward", mutates_args=())
def biased_attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    bias: Tensor,
    seed: Tensor,
    offset: Tensor,
    causal: bool,
    scale: float,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and of a bias that has the scores' shape."""
    if p and not torch.cuda.is_current_stream_capturing():
        seed, offset = seed.cpu(), offset.cpu()
    return _bias_backward(grad, q, k, v, output, logsumexp, bias, seed, offset, causal, scale, p)


def _bias_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, output: Tensor, logsumexp: Tensor, bias: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *seeds, causal, scale, p = rest
    backward = aten._scaled_dot_product_efficient_attention_backward
    wanted = [True] * 4
    dq, dk, dv, dbias = backward(grad, q, k, v, bias, output, logsumexp, *seeds, p, wanted, causal, scale=scale)
    return dq, dk, dv, dbias


seeded_attention.register_fake(implementation(seeded_attention))
biased_attention_backward.register_fake(_bias_backward)
