"""Matrix products as kernels of our own (target "tt", option gemm): right beside f64, one kernel with what follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.passes.libraries.products import routes as product_routes
from cuesta.passes.libraries.products.tiles import Plan
from cuesta.reports.compile_report import GraphReport

Tensor = torch.Tensor
OPTIONS = {"target": "tt", "gemm": "kernel", "cache": False}


def floats(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def check(function: Callable[..., Tensor], *arguments: Tensor) -> GraphReport:
    """`function` in kernels is as close to its result in f64 as torch's own is, and nothing is called."""
    torch._dynamo.reset()
    made = torch.compile(function, backend="cuesta", options=OPTIONS)(*arguments)
    exact, eager = function(*(x.double() for x in arguments)), function(*arguments)
    assert made.dtype == eager.dtype and made.stride() == eager.stride()

    def error(x: Tensor) -> float:
        return float((x.double() - exact).norm() / exact.norm())

    # Both round where the dtype does; sums of another order round elsewhere, in f32.
    assert error(made) <= 1.01 * error(eager) + 1e-6
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None and not graph.aten_calls
    return graph


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 96, 160), (100, 77, 103), (5, 130, 33), (300, 16, 16), (2, 2, 2)])
def test_sizes(m: int, k: int, n: int, dtype: torch.dtype) -> None:
    assert check(torch.matmul, floats(m, k, dtype=dtype), floats(k, n, dtype=dtype)).launches == 1


def test_many_small_products() -> None:
    """Their programs take turns, and compute what follows."""
    x, y, bias = floats(4300, 16, 6), floats(4300, 6, 16), floats(16)
    assert check(lambda x, y, bias: torch.relu(x @ y + bias), x, y, bias).launches == 1


def test_operands_lie_as_they_lie() -> None:
    assert check(lambda a, b: a.t() @ b.t(), floats(96, 64), floats(80, 96)).launches == 1
    assert check(torch.matmul, floats(3, 40, 24).transpose(1, 2), floats(3, 40, 56)).launches == 1
    assert check(torch.matmul, floats(64, 200)[:, 3:99], floats(96, 40)[:, ::2]).launches == 1


@pytest.mark.parametrize("plan", ["32x32x32/4/3", "64x128x16/2/3"])
def test_rows_that_end_within_what_is_loaded_at_once(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows of 200 elements in memory, of which 193 are the tensor's: what lies behind these is NaN.
    monkeypatch.setattr(product_routes, "plans", lambda *_: [Plan.parse(plan)])
    wide = floats(128, 200)
    wide[:, 193:] = torch.nan
    held = wide[:, :193]
    assert check(torch.matmul, held, floats(193, 136)).launches == 1
    assert check(lambda a, b: F.gelu(a @ b.t()), held, floats(56, 200)[:, :193]).launches == 1
    assert check(lambda a, b: F.gelu(a.t() @ b), held, floats(128, 24)).launches == 1
    assert check(torch.matmul, floats(24, 128), held).launches == 1


def test_a_thread_with_many_sums_goes_on_with_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_routes, "plans", lambda *_: [Plan.parse("64x128x16/2/3")])
    x, weight, bias = floats(70, 96), floats(200, 96), floats(200)
    assert check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, weight, bias).launches == 1
    assert check(lambda x, w, u: F.silu(x @ w.t()) * (x @ u.t()), x, weight, floats(200, 96) + 1).launches == 1


def test_a_linear_layer_is_one_kernel_with_what_follows() -> None:
    weight, bias, x = floats(80, 96), floats(80), floats(2, 64, 96)
    assert check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, weight, bias).launches == 1
    assert check(lambda x, w, b, r: F.linear(x, w, b) + r, x, weight, bias, floats(2, 64, 80)).launches == 1
    assert (
        check(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=0.5), floats(64, 80), x[0], weight.t()).launches == 1
    )


def test_swiglu_is_one_kernel() -> None:
    x, gate, up = floats(64, 96), floats(128, 96), floats(128, 96)
    assert check(lambda x, g, u: F.silu(x @ g.t()) * (x @ u.t()), x, gate, up).launches == 1


def test_what_makes_an_operand_joins_where_it_is_cheap() -> None:
    assert check(lambda a, b, w: (F.silu(a) * b) @ w.t(), floats(64, 72), floats(64, 72), floats(16, 72)).launches == 1


def test_vectors_and_long_sums() -> None:
    check(torch.matmul, floats(1, 96), floats(96, 160))
    check(lambda a, b: a @ b.t(), floats(1, 96), floats(160, 96))
    check(torch.matmul, floats(96, 40), floats(40, 1))
    assert check(lambda a, b: F.relu(a @ b), floats(32, 4096), floats(4096, 32)).launches == 2


def test_two_layers_are_two_kernels() -> None:
    graph = check(lambda x, v, w: F.relu(x @ v) @ w, floats(64, 96), floats(96, 64), floats(64, 64))
    assert graph.launches == 2


def test_a_product_written_over_its_own_operand() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        x = x.clone()
        x.copy_(x @ w)
        return x

    check(step, floats(64, 64), floats(64, 64))


def test_other_dtypes_are_the_librarys() -> None:
    torch._dynamo.reset()
    made = torch.compile(torch.matmul, backend="cuesta", options={"target": "tt", "gemm": "kernel", "cache": False})
    a, b = floats(4, 5, dtype=torch.float64), floats(5, 6, dtype=torch.float64)
    torch.testing.assert_close(made(a, b), a @ b)
    assert [call["op"] for call in cuesta.report().graphs[0].aten_calls] == ["aten.mm.default"]
