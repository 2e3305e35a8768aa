"""Ops of torch.library and users' Triton kernels (contract, point 14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import cuesta
from cuesta.frontend.fx_passes import users_kernels

Check = Callable[..., Any]


@torch.library.custom_op("cuesta_contract::scale", mutates_args=())
def scale(x: Tensor, factor: float) -> Tensor:
    return x * factor


scale.register_fake(lambda x, factor: torch.empty_like(x))


def keep_factor(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.factor = inputs[1]


scale.register_autograd(lambda ctx, gradient: (scale(gradient, ctx.factor), None), setup_context=keep_factor)


@torch.library.custom_op("cuesta_contract::bump", mutates_args={"x"})
def bump(x: Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("cuesta_contract::push", mutates_args={"x"})
def push(x: Tensor, w: Tensor) -> Tensor:
    """Writes to one tensor and returns another."""
    x.add_(w)
    return x.sum() * w


push.register_fake(lambda x, w: torch.empty_like(w))


@torch.library.custom_op("cuesta_contract::halves", mutates_args=())
def halves(x: Tensor, names: str) -> list[Tensor]:
    return [h.clone() for h in x.chunk(2)]


halves.register_fake(lambda x, names: [torch.empty_like(h) for h in x.chunk(2)])


@torch.library.custom_op("cuesta_contract::three", mutates_args=())
def three(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x + 1, x.sum(0), x * 2


three.register_fake(lambda x: (torch.empty_like(x), x.new_empty(x.shape[1:]), torch.empty_like(x)))


def test_with_a_gradient(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return scale(torch.sin(x), 2.5) + 1

    x = torch.randn(4, requires_grad=True)
    y = torch.compile(f, backend=backend, fullgraph=True)(x)
    assert_close(y, f(x))
    assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad(f(x).sum(), x))


def test_a_list_of_results_and_a_string(same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        first, second = halves(x * 2, "a, b")
        return first + second

    same_as_eager(f, torch.randn(6, 3))


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_results_that_nobody_reads(wanted: int, same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        return three(x * 2)[wanted] * 3

    same_as_eager(f, torch.randn(6, 3))


def test_that_writes_to_a_result(same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        before = y.sum()
        bump(y)
        return y * 3 + before

    same_as_eager(f, torch.randn(4))


def test_that_writes_to_an_input(same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        bump(x)
        return x * 2

    same_as_eager(f, torch.randn(4))


def test_that_writes_to_a_view(same_as_eager: Check) -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        z = push(y[1:], x[1:])
        return y * 3 + z.sum()

    same_as_eager(f, torch.randn(4))


def test_the_report_names_what_runs_in_python(cuesta_only: None) -> None:
    torch.compile(lambda x: bump(x), backend="cuesta", fullgraph=True)(torch.randn(4))
    text = str(cuesta.report())
    assert "auto_functionalized_v2 x1 (Python): a higher-order op; it runs between programs" in text


def test_a_triton_kernel_without_a_gpu_says_what_is_missing(backend: str) -> None:
    triton = pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, where the kernel would run")

    @triton.jit
    def double(x, y, n, block: triton.language.constexpr):  # type: ignore[no-untyped-def]
        i = triton.language.program_id(0) * block + triton.language.arange(0, block)
        triton.language.store(y + i, triton.language.load(x + i, mask=i < n) * 2, mask=i < n)

    def f(x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        double[(1,)](x, y, x.numel(), 128)
        return y + 1

    x = torch.randn(10)
    with pytest.raises(RuntimeError, match="0 active drivers") as eager:
        f(x)
    with pytest.raises(RuntimeError) as compiled:
        torch.compile(f, backend=backend)(x)
    assert str(eager.value) in str(compiled.value)


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user's Triton kernel that torch sees as one, and that runs on a CPU: torch stands in for what it computes."""
    triton = pytest.importorskip("triton")

    @triton.jit
    def double(x, y, n, block: triton.language.constexpr):  # type: ignore[no-untyped-def]
        i = triton.language.program_id(0) * block + triton.language.arange(0, block)
        triton.language.store(y + i, triton.language.load(x + i, mask=i < n) * 2, mask=i < n)

    def run(kernel: Any, x: Tensor, y: Tensor, *others: Any, **how: Any) -> None:
        y.copy_(x * 2)

    monkeypatch.setattr("torch.utils._triton.has_triton", lambda **_: True)  # since 2.15 it is asked about CPUs, too
    monkeypatch.setattr(triton.JITFunction, "run", run)
    return double


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_triton_kernel_runs_between_programs(dynamic: bool, double: Any, backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        s = torch.softmax(x, -1)
        y = torch.empty_like(s)
        double[(1,)](s, y, s.numel(), 128)
        return y.sin() + x

    compiled = torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (10, 7):
        x = torch.randn(rows, 33)
        assert_close(compiled(x), (torch.softmax(x, -1) * 2).sin() + x)


def test_what_only_a_triton_kernel_writes_is_not_filled_before(
    double: Any, cuesta_only: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        s = x.sin()
        y, z = torch.empty_like(x), torch.empty_like(x)
        double[(1,)](s, y, s.numel(), 128)
        double[(1,)](s, z, s.numel(), 128)
        return y.cos(), z.exp()

    copied: list[Tensor] = []
    monkeypatch.setattr(users_kernels, "clone_preserve_strides", lambda x: copied.append(x) or x.clone())
    x = torch.randn(10, 33)
    assert_close(torch.compile(f, backend="cuesta", fullgraph=True)(x), ((x.sin() * 2).cos(), (x.sin() * 2).exp()))
    assert [k["name"] for graph in cuesta.report().graphs for k in graph.kernels] == ["sin", "cos", "exp"]
    # Neither y nor z. Where there is no GPU to compile the kernel for, torch takes s for written as well, twice.
    assert len(copied) == (0 if torch.cuda.is_available() else 2)
