"""Products of 2 to 16 rows of bf16 by a linear layer's weight on a CPU: kernels that read the weight once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import cuesta
from cuesta.lowering.linalg_to_loops import multiply_rows
from cuesta.passes.libraries import compute_in_f32
from cuesta.passes.libraries.products import panels


@pytest.fixture(autouse=True, params=[True, False], ids=["pairs", "widened"])
def any_machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The rule of thumb holds with AVX2 or AVX-512. Kernels are right without either, without instructions for pairs of
    bf16, and where other products of bf16 are widened."""
    has_pairs = "avx512_bf16" in multiply_rows.instructions()
    if request.param and not has_pairs:
        pytest.skip("this processor does not multiply pairs of bf16")
    monkeypatch.setattr(panels, "has_vectors", lambda: True)
    monkeypatch.setattr(compute_in_f32, "slow_in_products", lambda: frozenset() if request.param else {"bf16"})
    if not request.param:
        monkeypatch.setattr(multiply_rows, "instructions", frozenset)


def around(x: Tensor, w: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return residual + F.silu(F.linear(x, w) + bias)


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8, 11, 16])
@pytest.mark.parametrize(("n", "k"), [(320, 272), (144, 2816), (1024, 72)])
def test_with_what_is_around(rows: int, n: int, k: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x, w, bias, residual = (
        torch.randn(*shape, generator=generator).bfloat16() for shape in ((rows, k), (n, k), (n,), (rows, n))
    )
    w /= k**0.5
    actual = torch.compile(around, backend="cuesta", options={"cache": False})(x, w, bias, residual)
    exact = around(*(t.double() for t in (x, w, bias, residual)))
    eager = around(x, w, bias, residual)
    eps = torch.finfo(torch.bfloat16).eps
    assert (actual - exact).abs().max() <= 2 * (eager - exact).abs().max() + eps * exact.abs().max()
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls, cuesta.report()


def test_rows_of_several_texts() -> None:
    """[B, T, K] by a weight: the rows of all texts, whose result a reshape splits again."""
    x, w = torch.randn(2, 3, 256).bfloat16(), (torch.randn(512, 256) / 16).bfloat16()
    actual = torch.compile(F.linear, backend="cuesta", options={"cache": False})(x, w)
    assert_close(actual, F.linear(x, w))
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls, cuesta.report()


def test_no_number_stays_none() -> None:
    x, w = torch.randn(4, 256).bfloat16(), torch.randn(512, 256).bfloat16()
    x[1, 7], w[5, 3], w[9, 0] = torch.nan, torch.inf, -torch.inf
    actual = torch.compile(F.linear, backend="cuesta", options={"cache": False})(x, w)
    assert_close(actual, F.linear(x, w), equal_nan=True)


@pytest.mark.parametrize("case", ["many rows", "a small weight", "columns that fill no vector", "a weight [K, N]"])
def test_others_stay_the_librarys(case: str) -> None:
    rows, n, k = {"many rows": (17, 512, 256), "a small weight": (4, 64, 64)}.get(case, (4, 512, 256))
    n = 500 if case == "columns that fill no vector" else n
    x, w = torch.randn(rows, k).bfloat16(), torch.randn(n, k).bfloat16()
    multiply = torch.mm if case == "a weight [K, N]" else F.linear
    w = w.t().contiguous() if case == "a weight [K, N]" else w
    actual = torch.compile(multiply, backend="cuesta", options={"cache": False})(x, w)
    assert_close(actual, multiply(x, w))
    (graph,) = cuesta.report().graphs
    assert [call["op"] for call in graph.aten_calls] == ["aten.mm.default"]
