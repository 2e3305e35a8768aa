"""Matrices of bf16 and f16 by a vector on a CPU: one kernel reads the matrix once, with what is around it fused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import cuesta
from cuesta.passes.libraries.products import panels

LENGTH, K = 320, 272
#: Name → the product, the matrix's shape and the vector's. All matrices have 65536 elements or more.
PRODUCTS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "a layer's weight": (lambda w, x: x @ w.t(), (LENGTH, K), (1, K)),
    "a weight [K, N]": (lambda w, x: x @ w, (K, LENGTH), (1, K)),
    "a column": (lambda w, x: w @ x, (LENGTH, K), (K, 1)),
}


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of thumb holds with AVX-512; kernels are right without."""
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_one_kernel_with_what_is_around(name: str, dtype: torch.dtype) -> None:
    multiply, matrix, vector = PRODUCTS[name]

    def around(w: Tensor, x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        return residual + torch.nn.functional.silu(multiply(w, x) + bias)

    torch.manual_seed(0)
    w, x = torch.randn(matrix, dtype=dtype) / 16, torch.randn(vector, dtype=dtype)
    bias, residual = (torch.randn(multiply(w, x).shape, dtype=dtype) for _ in range(2))
    actual = torch.compile(around, backend="cuesta", options={"cache": False})(w, x, bias, residual)
    exact = around(*(t.double() for t in (w, x, bias, residual)))
    assert actual.dtype == dtype
    # Rounded at the end, and where eager's graph rounds: after the product, the sum, silu.
    assert_close(actual.double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls and len(graph.kernels) == 1, cuesta.report()


def _per_row(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return x @ (w.to(x.dtype) * scale[:, :1]).t()


def _per_group(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    groups = w.to(x.dtype).view(*scale.shape, -1) * scale[..., None]
    return x @ groups.view(w.shape).t()


def _behind(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return (x @ w.to(x.dtype).t()) * scale[:, 0]


@pytest.mark.parametrize("multiply", [_per_row, _per_group, _behind])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_quantised_weight_is_widened_in_the_kernel(multiply: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """Memory is read for one byte a weight. No tensor of the weight's size is written."""
    torch.manual_seed(0)
    w = torch.randint(-128, 128, (LENGTH, 256), dtype=torch.int8)
    x, scale = torch.randn(1, 256, dtype=dtype), torch.rand(LENGTH, 8).to(dtype) / 256
    actual = torch.compile(multiply, backend="cuesta", options={"cache": False})(x, w, scale)
    assert_close(actual, multiply(x, w, scale), rtol=2 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps)
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls and len(graph.kernels) == 1, cuesta.report()


def test_a_small_matrix_stays_the_librarys() -> None:
    w, x = torch.randn(64, 64, dtype=torch.bfloat16), torch.randn(1, 64, dtype=torch.bfloat16)
    compiled = torch.compile(lambda w, x: x @ w.t(), backend="cuesta", options={"cache": False})
    assert_close(compiled(w, x), x @ w.t())
    (graph,) = cuesta.report().graphs
    assert [call["op"] for call in graph.aten_calls] == ["aten.mm.default"]


def test_the_gradients() -> None:
    """The gradient of the weight is an outer product, and that of the input another product by a vector."""
    w = (torch.randn(LENGTH, K) / 16).bfloat16().requires_grad_()
    x = torch.randn(1, K).bfloat16().requires_grad_()
    compiled = torch.compile(torch.nn.functional.linear, backend="cuesta", options={"cache": False})
    up = torch.randn(1, LENGTH).bfloat16()
    actual = torch.autograd.grad(compiled(x, w), (x, w), up)
    expected = torch.autograd.grad(torch.nn.functional.linear(x.double(), w.double()), (x, w), up.double())
    assert_close(actual, expected, rtol=1e-2, atol=2e-2)
