"""Linear layers over tokens, with gradients, on the interpreter of GPU kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta

BATCH, TOKENS, WIDTH, HIDDEN = 3, 20, 128, 24
Parameters = tuple[Tensor, ...]


def mixed(x: Tensor, scale: Tensor, into: Tensor, bias: Tensor, out: Tensor, last: Tensor) -> Tensor:
    """A block of a mixer, whose norm computes in f32 at least, and a norm behind it."""
    wide = torch.promote_types(x.dtype, torch.float32)
    y = F.layer_norm(x.to(wide), (WIDTH,), scale.to(wide)).to(x.dtype)
    y = F.linear(F.gelu(F.linear(y.transpose(1, 2), into, bias)), out, last).transpose(1, 2)
    return F.layer_norm((x + y).to(wide), (WIDTH,), scale.to(wide))


def _gradients(function: Callable[..., Tensor], values: list[Tensor], direction: Tensor) -> Parameters:
    values = [value.detach().requires_grad_() for value in values]
    result = function(*values)
    return (result.detach(), *torch.autograd.grad((result * direction.to(result.dtype)).sum(), values))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype, dynamic: bool) -> None:
    torch.manual_seed(0)
    sizes = ((BATCH, TOKENS, WIDTH), (WIDTH,), (HIDDEN, TOKENS), (HIDDEN,), (TOKENS, HIDDEN), (TOKENS,))
    values = [torch.randn(s, dtype=torch.float64).to(dtype) for s in sizes]
    direction = torch.randn(sizes[0], dtype=torch.float64)
    compiled = torch.compile(mixed, backend="cuesta", options={"target": "tt"}, dynamic=dynamic)
    found = [_gradients(run, values, direction) for run in (compiled, mixed)]
    exact = _gradients(mixed, [v.double() for v in values], direction)
    for ours, theirs, right in zip(*found, exact, strict=True):
        assert (ours - right).norm() <= 2 * (theirs - right).norm() + 1e-5 * right.norm()


def test_what_is_read_transposed_is_a_batched_product() -> None:
    """Forward, the second product; of the gradients, that of the first product's input."""
    values = [
        torch.randn(s, dtype=torch.bfloat16) for s in ((4, 24, WIDTH), (WIDTH,), (16, 24), (16,), (24, 16), (24,))
    ]
    compiled = torch.compile(mixed, backend="cuesta", options={"target": "tt"}, dynamic=False)
    _gradients(compiled, values, torch.randn(4, 24, WIDTH))
    calls = [call["op"] for graph in cuesta.report().as_dict()["graphs"] for call in graph["aten_calls"]]
    assert calls.count("aten.bmm.default") == 2, calls
