"""Global switches (contract, point 21), and compiled code within compiled code (point 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

Check = Callable[..., Any]


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def scattered(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    zeros = torch.zeros(5)
    return (
        zeros.index_add(0, i, x),
        zeros.scatter_add(0, i, x),
        zeros.scatter_reduce(0, i, x, "amax"),
        zeros.index_put((i,), x, accumulate=True),
        F.embedding(i, x[:5, None]).sum(0),
    )


def test_deterministic_algorithms(deterministic: None, backend: str) -> None:
    x, i = torch.randn(1000), torch.randint(5, (1000,))
    compiled = torch.compile(scattered, backend=backend)
    first = compiled(x, i)
    for _ in range(3):
        assert_close(compiled(x, i), first, rtol=0, atol=0)
    assert_close(first, scattered(x, i))


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_float32_matmul_precision(precision: str, backend: str) -> None:
    compiled, x = torch.compile(lambda x: x @ x + 1, backend=backend), torch.randn(64, 64)
    before = torch.get_float32_matmul_precision()
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # theirs are set with it
    theirs = [one.fp32_precision for one in backends]
    try:
        compiled(x)
        torch.set_float32_matmul_precision(precision)
        assert_close(compiled(x), x @ x + 1, rtol=0, atol=1e-4)
    finally:
        torch.set_float32_matmul_precision(before)
        for one, value in zip(backends, theirs, strict=True):
            one.fp32_precision = value


def test_switches_of_backends(backend: str) -> None:
    x = torch.randn(1, 3, 8, 8)
    weight = torch.randn(4, 3, 3, 3)
    compiled = torch.compile(lambda x, w: F.conv2d(x, w) + 1, backend=backend)
    for enabled in (True, False):
        with torch.backends.mkldnn.flags(enabled=enabled):
            assert_close(compiled(x, weight), F.conv2d(x, weight) + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_default_dtype(dtype: torch.dtype, backend: str) -> None:
    def made(n: Tensor) -> Tensor:
        return torch.ones(3) * 0.5 + n + torch.tensor(1.5)

    compiled, n = torch.compile(made, backend=backend), torch.tensor([2])
    assert compiled(n).dtype == torch.float32
    torch.set_default_dtype(dtype)
    try:
        actual, expected = compiled(n), made(n)
    finally:
        torch.set_default_dtype(torch.float32)
    assert actual.dtype == dtype
    assert_close(actual, expected)


def test_compiled_within_compiled(same_as_eager: Check, backend: str) -> None:
    inner = torch.compile(lambda x: torch.sin(x) * 2, backend=backend)
    same_as_eager(lambda x: inner(x) + 1, torch.randn(3))


def test_a_break_between_steps_in_python(same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        torch._dynamo.graph_break()
        return torch.cond(y.sum() > 0, torch.exp, torch.neg, (y,)) * 2

    same_as_eager(f, torch.randn(5), fullgraph=False)


def test_disabled_code_in_the_middle(backend: str) -> None:
    @torch.compiler.disable
    def noted(x: Tensor) -> Tensor:
        seen.append(float(x.detach().sum()))
        return x + 1

    def f(x: Tensor) -> Tensor:
        return noted(torch.sin(x)) * 2

    seen: list[float] = []
    x = torch.randn(4, requires_grad=True)
    y = torch.compile(f, backend=backend)(x)
    assert_close(y, (torch.sin(x) + 1) * 2)
    assert seen == [pytest.approx(float(torch.sin(x).sum()), rel=1e-5)]
    assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * torch.cos(x))


def test_it_knows_that_it_is_compiled(backend: str) -> None:
    compiled = torch.compile(lambda x: (x + 1, torch.compiler.is_compiling()), backend=backend)
    assert compiled(torch.ones(2))[1]
    assert not torch.compiler.is_compiling()
