"""Gradients of norms on the interpreter of GPU kernels, with rows enough for kernels that reduce along and down."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta

WIDTH = 72


def layer_norms(x: Tensor, w: Tensor, b: Tensor, m: Tensor) -> Tensor:
    """Two layer norms with a residual between them; what the second one's input gives is read as rows, too."""
    y = F.layer_norm(x, (WIDTH,), w, b)
    z = x + (y.flatten(0, 1) @ m).unflatten(0, x.shape[:2])
    return F.layer_norm(z, (WIDTH,), b, w)


def rms_norms(x: Tensor, w: Tensor, b: Tensor, m: Tensor) -> Tensor:
    return F.rms_norm((F.rms_norm(x, (WIDTH,), w).flatten(0, 1) @ m + b).unflatten(0, x.shape[:2]), (WIDTH,), w)


@pytest.mark.parametrize("function", [layer_norms, rms_norms])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(function: object, dtype: torch.dtype) -> None:
    assert callable(function)
    torch.manual_seed(0)
    sizes = ((3, 1056, WIDTH), (WIDTH,), (WIDTH,), (WIDTH, WIDTH))
    tensors = [torch.randn(s, dtype=dtype, requires_grad=True) for s in sizes]
    direction = torch.randn(sizes[0], dtype=torch.float64)

    def gradients(run: object, values: list[Tensor]) -> tuple[Tensor, ...]:
        assert callable(run)
        return torch.autograd.grad((run(*values) * direction.to(values[0].dtype)).sum(), values)

    compiled = torch.compile(function, backend="cuesta", options={"target": "tt"}, dynamic=False)
    actual, eager = gradients(compiled, tensors), gradients(function, tensors)
    exact = gradients(function, [t.detach().double().requires_grad_() for t in tensors])
    for ours, theirs, right in zip(actual, eager, exact, strict=True):
        assert (ours - right).norm() <= 2 * (theirs - right).norm()
    # One kernel for each norm, and what joins the parts of sums.
    names = [kernel["name"] for kernel in cuesta.report().as_dict()["graphs"][-1]["kernels"]]
    assert len(names) <= 7, names


def test_factors() -> None:
    """The gradients of two factors and of what is added are sums down few rows, which a program walks."""
    torch.manual_seed(0)
    x, g = (torch.randn(784, 16, 384, dtype=torch.bfloat16) for _ in range(2))
    w = torch.randn(384)

    def sums(x: Tensor, g: Tensor, w: Tensor) -> list[Tensor]:
        wide = g.to(w.dtype)
        parts = [wide, wide * x.to(w.dtype), wide * w * x.to(w.dtype)]
        return [(wide * w).to(g.dtype), *(part.sum(1) for part in parts)]

    actual = torch.compile(sums, backend="cuesta", options={"target": "tt", "cache": False})(x, g, w)
    names = [kernel["name"] for kernel in cuesta.report().as_dict()["graphs"][-1]["kernels"]]
    for ours, exact in zip(actual[1:], sums(x.double(), g.double(), w.double())[1:], strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-4, atol=1e-4)
    assert torch.equal(actual[0], sums(x, g, w)[0])
    assert len(names) == 1, names
