"""Tensors that kernels do not compute on (contract, point 20): compiled around, or handed to ATen; never refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from cuesta.torch_versions import installed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch: sparse is beta, quantised is deprecated


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse(layout: torch.layout, backend: str) -> None:
    def f(s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return s @ x + 1, s.to_dense() * 2

    s, x = torch.diag(torch.randn(3)).to_sparse(layout=layout), torch.randn(3, 3)
    assert_close(torch.compile(f, backend=backend)(s, x), f(s, x))


def test_sparse_within(same_as_eager: Callable[..., Any]) -> None:
    same_as_eager(lambda x: torch.sparse.mm((x * 2).to_sparse(), x) + 1, torch.eye(3), fullgraph=False)


def test_a_sparse_result(backend: str) -> None:
    s = torch.eye(3).to_sparse()
    y = torch.compile(lambda s: s * 2, backend=backend)(s)
    assert y.layout == torch.sparse_coo
    assert_close(y.to_dense(), 2 * torch.eye(3))


@pytest.mark.parametrize("module", [nn.Embedding(20, 4, sparse=True), nn.EmbeddingBag(20, 4, sparse=True)])
def test_a_sparse_gradient(module: nn.Module, backend: str) -> None:
    found = []
    for run in (module, torch.compile(module, backend=backend)):
        module.zero_grad()
        run(torch.tensor([[3, 5, 3], [0, 19, 5]])).exp().sum().backward()
        (parameter,) = module.parameters()
        assert parameter.grad is not None and parameter.grad.layout == torch.sparse_coo
        found.append(parameter.grad.to_dense())
    assert_close(found[1], found[0])


@pytest.mark.skipif(installed() < (2, 12), reason="torch 2.11 traces no quantize_per_tensor")
def test_quantised(same_as_eager: Callable[..., Any]) -> None:
    def f(x: Tensor) -> Tensor:
        q = torch.quantize_per_tensor(x * 2, 0.1, 0, torch.qint8)
        return torch.relu(q).dequantize() + 1

    same_as_eager(f, torch.randn(8))


def test_a_quantised_argument(backend: str) -> None:
    q = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.quint8)
    assert_close(torch.compile(lambda q: q.dequantize() * 2, backend=backend)(q), q.dequantize() * 2)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz])
def test_float8(dtype: torch.dtype, backend: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        wide = x.to(torch.float32)
        return wide * 2, (wide + 1).to(dtype)

    x = torch.randn(4, 4).to(dtype)
    actual, expected = torch.compile(f, backend=backend)(x), f(x)
    assert actual[1].dtype == dtype
    assert_close(actual[0], expected[0])
    assert_close(actual[1].float(), expected[1].float(), rtol=0, atol=0)


def test_complex(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return (x * x.conj()).real + torch.view_as_real(x).sum(-1) + torch.fft.fft(x).abs()

    x = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    y = torch.compile(f, backend=backend)(x)
    assert_close(y, f(x))
    assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad(f(x).sum(), x))


def test_lazy_conjugates(same_as_eager: Callable[..., Any]) -> None:
    x = torch.randn(4, dtype=torch.complex64)
    same_as_eager(lambda x: x + 1, x.conj())
    same_as_eager(lambda x: x * 2, x.conj().imag)


def test_nested_of_the_older_layout(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.sin(x).to_padded_tensor(0.0) * 2

    x = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    assert_close(torch.compile(f, backend=backend)(x), f(x))
