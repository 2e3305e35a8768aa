"""Matrix products as kernels of our own on a CPU (option gemm): right beside f64, one kernel with what follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

import cuesta
from cuesta._mlir import ir
from cuesta.driver.autotune import candidate_programs, measured_choices
from cuesta.driver.lower import lower_module
from cuesta.options import Options
from cuesta.passes.libraries import compute_in_f32
from cuesta.passes.libraries.products import panels as product_panels
from cuesta.policy.choices import Question, chosen_by
from cuesta.reports.compile_report import GraphReport

Tensor = torch.Tensor


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def compiled(function: Callable[..., Tensor], *arguments: Tensor) -> tuple[Tensor, GraphReport]:
    torch._dynamo.reset()
    made = torch.compile(function, backend="cuesta", options={"gemm": "kernel", "cache": False})(*arguments)
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None
    return made, graph


def check(function: Callable[..., Tensor], *arguments: Tensor) -> GraphReport:
    """`function` in kernels is about as close to its result in f64 as eager is, and calls no library."""
    made, graph = compiled(function, *arguments)
    exact, eager = function(*(x.double() for x in arguments)), function(*arguments)
    assert made.stride() == eager.stride() and not graph.aten_calls
    # f32 rounds each sum; how its blocks are added up is a library's own.
    assert (made.double() - exact).norm() <= 1e-6 * exact.norm()
    return graph


@pytest.mark.parametrize(("m", "k", "n"), [(100, 77, 103), (5, 130, 33), (33, 800, 48)])
def test_sizes_and_how_operands_lie(m: int, k: int, n: int) -> None:
    assert check(torch.matmul, floats(m, k), floats(k, n)).launches == 1
    assert check(F.linear, floats(m, k), floats(n, k)).launches == 1
    assert check(lambda a, b: a.t() @ b, floats(k, m), floats(k, n)).launches == 1


def test_rows_with_gaps_between_and_operands_that_repeat() -> None:
    assert check(torch.matmul, floats(64, 200)[:, 3:99], floats(96, 48)).launches == 1
    assert check(F.linear, floats(24, 96), floats(48, 192)[:, ::2]).launches == 1
    assert check(torch.matmul, floats(24, 1).expand(24, 96), floats(96, 96)).launches == 1
    assert check(torch.matmul, floats(24, 96), floats(1, 48).expand(96, 48)).launches == 1


@pytest.mark.parametrize(("m", "k", "n"), [(1030, 70, 50), (40, 70, 1009), (521, 300, 1013)])
def test_tiles_of_which_the_last_are_smaller(m: int, k: int, n: int) -> None:
    assert check(torch.matmul, floats(m, k), floats(k, n)).launches == 1
    assert check(F.linear, floats(m, k), floats(n, 2 * k)[:, :k]).launches == 1
    assert check(F.linear, floats(m, k), floats(n, 2 * k)[:, ::2]).launches == 1
    assert check(lambda a, b, c: F.gelu(a.t() @ b + c), floats(k, m), floats(k, n), floats(n)).launches == 1
    assert check(lambda a, b: (a @ b).relu().t(), floats(m, k), floats(k, n)).launches == 1
    assert check(lambda a, b: (a @ b).t().contiguous(), floats(m, k), floats(k, n)).launches == 1


@pytest.mark.parametrize(("batch", "m", "k", "n"), [(1, 33, 40, 49), (6, 20, 64, 48), (3, 5, 130, 100)])
def test_a_batch_of_products(batch: int, m: int, k: int, n: int) -> None:
    a, b = floats(batch, m, k), floats(batch, k, n)
    assert check(torch.bmm, a, b).launches == 1
    assert check(lambda a, b: a @ b.mT, a, floats(batch, n, k)).launches == 1
    assert check(lambda a, b: a.mT @ b, floats(batch, k, m), b).launches == 1
    assert check(lambda a, b: a.expand(batch, -1, -1) @ b, a[:1], b).launches == 1
    assert check(lambda a, b: a @ b, a, b[0]).launches == 1
    assert check(lambda a, b: a @ b, a[0], b).launches == 1
    bias = floats(batch, 1, n)
    assert check(lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5), bias, a, b).launches == 1


def test_attention_that_is_written_out() -> None:
    q, k, v = floats(2, 20, 3, 64), floats(2, 24, 3, 64), floats(2, 24, 3, 64)
    mask = floats(2, 1, 1, 24)

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        weights = torch.softmax(q @ k.mT + mask, -1)
        return (torch.tanh(weights) @ v).transpose(1, 2).reshape(2, 20, -1)

    assert check(attention, q, k, v, mask).launches == 3  # heads need no copies


def test_what_follows_is_in_the_kernel() -> None:
    x, weight, bias = floats(2, 64, 96), floats(96, 96), floats(96)
    assert check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, weight, bias).launches == 1
    assert check(lambda x, w, b: F.linear(x, w, b) + x, x, weight, bias).launches == 1
    assert check(lambda x, w, u: F.silu(x @ w) * (x @ u), x[0], weight, weight + 1).launches == 1
    assert check(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=0.5), floats(64, 96), x[0], weight).launches == 1
    assert check(lambda x, w: (x @ w).relu().t(), x[0], weight).launches == 1


def test_what_every_tile_would_compute_again_is_another_kernel() -> None:
    x, weight = floats(64, 96), floats(96, 96)
    assert check(lambda x, w: F.gelu(x) @ w, x, weight).launches == 2
    assert check(lambda x, w: F.layer_norm(x @ w + x, (96,)), x, weight).launches == 2
    assert check(lambda x, w: (x @ w).sum(0), x, weight).launches == 2


def test_half_floats_are_summed_in_f32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_in_f32, "slow_in_products", frozenset)  # as with AVX-512
    a, b, bias = floats(2, 50, 96).half(), floats(103, 96).half(), floats(103).half()

    def close(function: Callable[..., Tensor], *arguments: Tensor) -> None:
        made, graph = compiled(function, *arguments)
        exact, eager = function(*(x.double() for x in arguments)), function(*arguments)
        assert made.dtype == torch.float16 and made.stride() == eager.stride()
        assert (graph.launches, graph.aten_calls) == (1, [])
        assert (made.double() - exact).norm() <= 1.1 * (eager.double() - exact).norm()

    close(lambda a, b, c: F.gelu(F.linear(a, b, c)), a, b, bias)
    close(lambda a, b: a[0].t() @ b[:50], a, b)
    close(lambda a, b: a @ b.mT, a, b)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 300, 70), (70, 300, 1), (40, 1, 30), (1, 300, 1)])
def test_products_by_vectors(m: int, k: int, n: int) -> None:
    assert check(lambda x, w, b: F.relu(F.linear(x, w, b)), floats(m, k), floats(n, k), floats(n)).launches == 1
    # Sums down columns may be split, which takes another kernel.
    check(torch.matmul, floats(m, k), floats(k, n))
    check(torch.bmm, floats(3, m, k), floats(3, k, n))


def test_nan_and_infinity_come_through() -> None:
    a, b = floats(20, 40), floats(40, 33)
    a[3, 7], a[5, 0], b[2, 9] = torch.nan, torch.inf, -torch.inf
    a[7, 2] = 0
    made, _ = compiled(torch.matmul, a, b)
    expected = a @ b
    assert torch.equal(made.isnan(), expected.isnan()) and torch.equal(made.isinf(), expected.isinf())
    finite = expected.isfinite()
    torch.testing.assert_close(made[finite], expected[finite], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 5), (4, 0, 5), (4, 5, 0)])
def test_no_elements(m: int, k: int, n: int) -> None:
    made, _ = compiled(lambda a, b: a @ b + 1, floats(2, m, k), floats(2, k, n))
    assert torch.equal(made, floats(2, m, k) @ floats(2, k, n) + 1)
    made, _ = compiled(lambda a, b: a @ b + 1, floats(m, k), floats(k, n))
    assert torch.equal(made, floats(m, k) @ floats(k, n) + 1)


def test_few_rows_by_a_large_weight_are_a_kernel_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(rows: int) -> tuple[int, int]:
        torch._dynamo.reset()
        x, weight, bias = floats(rows, 256), floats(384, 256), floats(384)
        made = torch.compile(lambda x: F.gelu(F.linear(x, weight, bias)), backend="cuesta", options={"cache": False})
        torch.testing.assert_close(made(x), F.gelu(F.linear(x, weight, bias)), rtol=1e-4, atol=1e-4)
        (graph,) = cuesta.report().graphs
        return graph.launches, len(graph.aten_calls)

    monkeypatch.setattr(product_panels, "has_wide_vectors", lambda: True)
    assert counts(8) == (1, 0) and counts(256) == (1, 1)
    monkeypatch.setattr(product_panels, "has_wide_vectors", lambda: False)
    assert counts(8) == (1, 1)


def test_max_autotune_measures_it_with_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(question: Question, op: ir.Operation) -> str:
        asked.append(question.candidates)
        for candidate in question.candidates:
            module, level = candidate_programs.gemm(op, candidate)
            with chosen_by(None), _disable_current_modes():
                report = GraphReport("candidate")
                lower_module(module, Options(cache=False), report, level)
            assert (report.launches, bool(report.aten_calls)) == (1, candidate == "library")
        return question.candidates[-1]

    monkeypatch.setattr(measured_choices.MeasuredChoices, "of", lambda *rest: answer)
    monkeypatch.setattr(product_panels, "has_wide_vectors", lambda: True)
    torch._dynamo.reset()
    x, weight = floats(64, 96), floats(96, 96)
    made = torch.compile(lambda x, w: F.gelu(x @ w), backend="cuesta", options={"max_autotune": True, "cache": False})
    torch.testing.assert_close(made(x, weight), F.gelu(x @ weight))
    assert asked == [("library", "panels 64x48x96 by 8x48")]
    (graph,) = cuesta.report().graphs
    assert graph.launches == 1 and not graph.aten_calls


@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_between_two_layers_joins_the_first(batch: int) -> None:
    def layers(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(x, first)), second)

    assert check(layers, floats(batch, 32, 64), floats(96, 64), floats(64, 96)).launches == 2


@pytest.mark.parametrize("batches", [(), (3,)])
def test_rows_that_the_call_counts(batches: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    first, second = torch.nn.Linear(48, 96), torch.nn.Linear(96, 10)
    layers = torch.nn.Sequential(first, torch.nn.GELU(), second).requires_grad_(False)
    made = torch.compile(layers, backend="cuesta", dynamic=True, options={"gemm": "kernel", "cache": False})
    for rows in (7, 2, 256, 257, 600):
        x = floats(*batches, rows, 48)
        torch.testing.assert_close(made(x), layers(x))
    (graph,) = cuesta.report().graphs
    assert (graph.launches, graph.aten_calls) == (2, [])


def test_a_layer_s_gradients() -> None:
    torch._dynamo.reset()
    layer = torch.nn.Linear(48, 64)
    x, weights = floats(40, 48).requires_grad_(), (layer.weight, layer.bias)
    F.gelu(layer(x)).square().sum().backward()
    expected = [x.grad, *(w.grad for w in weights)]
    for leaf in (x, *weights):
        leaf.grad = None
    step = torch.compile(lambda x: F.gelu(layer(x)).square().sum(), backend="cuesta", options={"gemm": "kernel"})
    step(x).backward()
    torch.testing.assert_close([x.grad, *(w.grad for w in weights)], expected)
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)
