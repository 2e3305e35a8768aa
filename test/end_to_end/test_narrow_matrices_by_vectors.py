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
    """The rule of thumb holds with AVX2 or AVX-512; kernels are right without."""
    monkeypatch.setattr(panels, "has_vectors", lambda: True)


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


def _with_zeros(x: Tensor, w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Values of 8 bits in groups, less a zero, times a scale."""
    values = w.view(*scale.shape, -1).to(x.dtype)
    return x @ ((values - zero[..., None]) * scale[..., None]).view(w.shape).t()


def _of_4_bits(x: Tensor, w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Two values in a byte, interleaved."""
    values = torch.stack([w & 15, w >> 4], 2).view(*scale.shape, -1).to(x.dtype)
    return x @ ((values - zero[..., None]) * scale[..., None]).flatten(1).t()


def _less_eight(x: Tensor, w: Tensor, scale: Tensor, _: Tensor) -> Tensor:
    """Two values in a byte, less 8 as integers."""
    values = torch.stack([w & 15, w >> 4], 2).to(torch.int8) - 8
    return x @ (values.view(*scale.shape, -1).to(x.dtype) * scale[..., None]).flatten(1).t()


@pytest.mark.parametrize("groups", [1, 2, 8, 11])
@pytest.mark.parametrize("multiply", [_with_zeros, _of_4_bits, _less_eight])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_scales_and_zeros_of_groups(multiply: Callable[..., Tensor], dtype: torch.dtype, groups: int) -> None:
    """No further from f64 than twice eager's result, which rounds each element of the weight."""
    torch.manual_seed(groups)
    columns = 32 * groups if groups > 8 else 256
    w = torch.randint(0, 256, (LENGTH, columns), dtype=torch.uint8)
    w = w.view(torch.int8) if multiply is _with_zeros else w
    elements = columns * (1 if multiply is _with_zeros else 2)
    x, scale = torch.randn(1, elements).to(dtype), (torch.rand(LENGTH, groups) / 256).to(dtype)
    zero = torch.randint(0, 16, (LENGTH, groups)).to(dtype)
    actual = torch.compile(multiply, backend="cuesta", options={"cache": False, "gemm": "kernel"})(x, w, scale, zero)
    exact = multiply(*(t if t is w else t.double() for t in (x, w, scale, zero)))
    error, eager = ((y - exact).abs().max() for y in (actual, multiply(x, w, scale, zero)))
    assert error <= 2 * eager + torch.finfo(dtype).eps * exact.abs().max()
    (graph,) = cuesta.report().graphs
    # The sums of x in groups are a kernel of their own. No tensor of the weight's size is written.
    assert not graph.aten_calls and len(graph.kernels) <= 3, cuesta.report()
    assert graph.arena_bytes < w.numel(), cuesta.report()


def test_integers_that_wrap_around_are_not_taken_apart() -> None:
    """Of whole bytes a number is subtracted as int8 does it: 100 less -100 is -56."""
    w = torch.randint(-128, 128, (LENGTH, 256), dtype=torch.int8)
    x = torch.randn(1, 256, dtype=torch.bfloat16)
    compiled = torch.compile(lambda x, w: x @ (w - 100).to(x.dtype).t(), backend="cuesta", options={"cache": False})
    assert_close(compiled(x, w), x @ (w - 100).to(x.dtype).t(), rtol=2e-2, atol=2e-2 * 1000)


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
