"""Attention in training on a GPU, by masks and types: which of ATen's kernels runs depends on both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BATCH, HEADS, LENGTH, DEPTH = 2, 3, 49, 32


def no_mask(_: Tensor) -> None:
    return None


def odd_rows(bias: Tensor) -> Tensor:
    return bias.detach() * 2


def rows_across(bias: Tensor) -> Tensor:
    """As a table of relative positions makes it: the heads are the dense dim."""
    return (bias.detach().permute(0, 2, 3, 1).contiguous() + 1).permute(0, 3, 1, 2)


def learned(bias: Tensor) -> Tensor:
    return bias


def learned_across(bias: Tensor) -> Tensor:
    return (bias.permute(0, 2, 3, 1).contiguous() + 1).permute(0, 3, 1, 2)


def layer(x: Tensor, w: Tensor, bias: Tensor, make: Callable[[Tensor], Tensor | None], p: float = 0.0) -> Tensor:
    q, k, v = F.linear(x, w).view(BATCH, LENGTH, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=make(bias), dropout_p=p)
    return y.transpose(1, 2).reshape(x.shape)


def inputs(dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    width = HEADS * DEPTH
    shapes = (BATCH, LENGTH, width), (3 * width, width), (1, HEADS, LENGTH, LENGTH)
    made = [torch.randn(s, device="cuda", dtype=dtype) for s in shapes]
    made[1] /= width**0.5
    return [x.requires_grad_() for x in made]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("make", [no_mask, odd_rows, rows_across, learned, learned_across])
def test_a_step_is_eagers(make: Callable[[Tensor], Tensor | None], dtype: torch.dtype) -> None:
    tensors = inputs(dtype)
    exact = [x.detach().double().requires_grad_() for x in tensors]

    def step(run: Callable[..., Tensor], arguments: list[Tensor]) -> list[Tensor]:
        y = run(*arguments, make)
        used = arguments if make in (learned, learned_across) else arguments[:2]
        return [y.detach(), *torch.autograd.grad(y.square().mean(), used)]

    results = step(torch.compile(layer, backend="cuesta"), tensors)
    for result, eager, wanted in zip(results, step(layer, tensors), step(layer, exact), strict=True):
        scale = wanted.abs().max()
        allowed = 2 * float((eager - wanted).abs().max() / scale) + 4 * torch.finfo(dtype).eps
        assert float((result - wanted).abs().max() / scale) <= allowed


def test_a_step_after_eagers_whose_gradient_has_gaps() -> None:
    """torch caches cuDNN's plans by q, k and v, and not by the strides of the gradient."""
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(BATCH, LENGTH, HEADS, DEPTH, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
        for _ in range(3)
    )

    def halves(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return torch.cat([y, y * 2], dim=-1)

    def gradients(run: Callable[..., Tensor], arguments: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(run(*arguments).square().mean(), arguments)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        eager = gradients(halves, [q, k, v])
        found = gradients(torch.compile(halves, backend="cuesta"), [q, k, v])
    exact = gradients(halves, [x.detach().double().requires_grad_() for x in (q, k, v)])
    for result, own, wanted in zip(found, eager, exact, strict=True):
        scale = wanted.abs().max()
        allowed = 2 * float((own - wanted).abs().max() / scale) + 4 * torch.finfo(torch.bfloat16).eps
        assert float((result - wanted).abs().max() / scale) <= allowed


@pytest.mark.parametrize("make", [odd_rows, learned])
def test_dropout_drops_in_the_gradient_what_it_dropped(make: Callable[[Tensor], Tensor | None]) -> None:
    """The values are ones and the queries zeros, so that a row's sum counts the weights that are left."""
    _, _, bias = inputs(torch.float32)
    q, k = (torch.zeros(BATCH, HEADS, LENGTH, DEPTH, device="cuda") for _ in range(2))
    v = torch.ones(BATCH, HEADS, LENGTH, DEPTH, device="cuda", requires_grad=True)

    def attend(v: Tensor, bias: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=make(bias * 0), dropout_p=0.5)

    y = torch.compile(attend, backend="cuesta")(v, bias)
    kept = y[..., 0].mul(LENGTH / 2)
    torch.testing.assert_close(kept, kept.round())
    assert 0.3 < float(kept.mean() / LENGTH) < 0.7
    (dv,) = torch.autograd.grad(y[..., 0].sum(), v)
    torch.testing.assert_close(dv[..., 0].sum(-1), y[..., 0].sum(-1))
