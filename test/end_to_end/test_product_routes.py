"""Matrix products by every route, of many ranks, layouts and sizes, with what may follow them: as exact as eager's.

A route is who computes a product: a library, a kernel that multiplies panels, or one that walks along columns or rows.
Cases cross rank, batch dims, layouts of the operands, sizes, and what becomes of the result. Of all combinations each
test takes a sample of its own that holds every pair of choices; many cases are one graph, as compiling each alone would
take minutes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import cuesta
from cuesta.passes.libraries.products import routes as product_routes
from cuesta.reports.compile_report import GraphReport

Tensor: TypeAlias = torch.Tensor

#: Cases of most graphs: a sample begins with those that hold the most pairs of choices.
_SOME = 24

#: Batch dims of the left and the right factor: of ranks 2 to 5, of size 1 and more, and broadcast.
BATCHES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((1,), (1,)),
    ((3,), (3,)),
    ((3,), ()),
    ((2, 4), (2, 4)),
    ((2, 1), (2, 1)),
    ((1, 4), (1, 4)),
    ((2, 4), (1, 4)),
    ((2, 1), (2, 4)),
    ((2, 1, 3), (2, 1, 3)),
    ((2, 2, 3), (2, 3)),
)
#: M, K and N: whole panels of 48 and of 64 columns, parts of them, and vectors.
SIZES = (
    *((64, 64, 64), (48, 64, 48), (64, 48, 64), (64, 7, 48), (7, 64, 64), (7, 7, 7)),
    *((7, 48, 1), (1, 64, 48), (1, 64, 64), (48, 1, 64), (1, 7, 1)),
)
#: How an operand lies: as it is, its last two dims turned, or a part of something larger.
LAYOUTS = ("plain", "turned", "cut")


def _turned(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous()


def _heads_behind_rows(x: Tensor) -> Tensor:
    return x.transpose(max(x.dim() - 3, 0), -2).contiguous()


#: What becomes of a product, from it and a row to add.
RESULTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda x, row: x,
    "turned": lambda x, row: _turned(x),
    "heads behind rows": lambda x, row: _heads_behind_rows(x),
    "view": lambda x, row: x.transpose(-1, -2),
    "epilogue": lambda x, row: F.gelu(x + row) * 0.5,
    "epilogue behind turning": lambda x, row: _heads_behind_rows(torch.tanh(x + row)),
    "reduction": lambda x, row: torch.softmax(x + row, -1),
}


@dataclass(frozen=True)
class Case:
    """A product of random matrices."""

    batches: tuple[tuple[int, ...], tuple[int, ...]]
    sizes: tuple[int, int, int]
    left: str
    right: str
    result: str

    def tensors(self, dtype: torch.dtype) -> list[Tensor]:
        (m, k, n), (left, right) = self.sizes, self.batches
        return [
            _matrix([*left, m, k], self.left, dtype),
            _matrix([*right, k, n], self.right, dtype),
            torch.randn(n).to(dtype),
        ]

    def value(self, left: Tensor, right: Tensor, row: Tensor) -> Tensor:
        return RESULTS[self.result](left @ right, row)


def _matrix(sizes: Sequence[int], layout: str, dtype: torch.dtype) -> Tensor:
    *batch, rows, columns = sizes
    if layout == "turned":
        return torch.randn(*batch, columns, rows).to(dtype).transpose(-1, -2)
    if layout == "cut":
        return torch.randn(*batch, rows + 1, columns + 3).to(dtype)[..., 1:, 2:-1]
    return torch.randn(*batch, rows, columns).to(dtype)


def _pairs(case: Case) -> Iterator[tuple[object, ...]]:
    """The choices of a case, two by two."""
    values = enumerate((case.batches, case.sizes, case.left, case.right, case.result))
    return itertools.combinations(values, 2)


def sample(seed: int) -> list[Case]:
    """Cases that hold every pair of choices, others for every seed."""
    rest = [Case(*choice) for choice in itertools.product(BATCHES, SIZES, LAYOUTS, LAYOUTS, RESULTS)]
    random.Random(seed).shuffle(rest)
    wanted = {pair for case in rest for pair in _pairs(case)}
    found = []
    for least in (9, 6, 3, 1):  # those first that hold many new pairs
        for case in rest:
            new = wanted.intersection(_pairs(case))
            if len(new) >= least:
                found.append(case)
                wanted -= new
    return found


#: Beside what eager's own error in this dtype is, as a share of the largest result.
_ERROR = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def check(cases: Sequence[Case], dtype: torch.dtype, gemm: str) -> GraphReport:
    """All of them in one graph are about as close to their results in f64 as eager is, and lie as eager's do."""
    given = [case.tensors(dtype) for case in cases]

    def function(given: list[list[Tensor]]) -> list[Tensor]:
        return [case.value(*tensors) for case, tensors in zip(cases, given, strict=True)]

    made = torch.compile(function, backend="cuesta", options={"gemm": gemm, "cache": False})(given)
    for case, tensors, value in zip(cases, given, made, strict=True):
        eager, exact = case.value(*tensors), case.value(*(x.double() for x in tensors))
        assert (value.stride(), value.dtype) == (eager.stride(), eager.dtype), case
        scale = exact.abs().max()
        error, own = ((x.double() - exact).abs().max() / scale for x in (value, eager))
        assert error <= 2 * own + _ERROR[dtype], case
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None and not graph.instead
    return graph


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("gemm", ["kernel", "auto", "library"])
def test_products(gemm: str, dtype: torch.dtype) -> None:
    seed = ("kernel", "auto", "library").index(gemm) + 3 * list(_ERROR).index(dtype)
    # What takes panels is where routes differ most: there every pair of choices is tried.
    cases = sample(seed) if (gemm, dtype) == ("kernel", torch.float32) else sample(seed)[:_SOME]
    graph = check(cases, dtype, gemm)
    products = sum(call["count"] for call in graph.aten_calls if "mm" in call["op"])
    if gemm == "library":
        assert products == len(cases)
    elif (gemm, dtype) == ("kernel", torch.float32):
        assert products < len(cases) / 5  # vectors that lie across are the library's


@pytest.mark.parametrize("route", [product_routes.COLUMNS, product_routes.ROWS])
def test_products_as_sums(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_routes, "_route", lambda *_: route)
    assert not check(sample(len(route))[:_SOME], torch.float32, "kernel").aten_calls


@pytest.mark.parametrize("gemm", ["kernel", "library"])
def test_products_of_any_number_of_rows(gemm: str) -> None:
    """One program for all, of a number of rows, or of matrices, that the call says."""

    def function(x: Tensor, w: Tensor, heads: Tensor, keys: Tensor) -> tuple[Tensor, ...]:
        scores = heads @ keys.transpose(-1, -2)
        return F.gelu(x @ w), _turned(x @ w), (scores @ keys).transpose(1, 2).contiguous()

    compiled = torch.compile(function, backend="cuesta", options={"gemm": gemm, "cache": False})
    for n in (5, 48, 64):
        x, heads, keys = torch.randn(n, 64), torch.randn(n, 2, n, 16), torch.randn(n, 2, n, 16)
        for given, dims in ((x, [0]), (heads, [0, 2]), (keys, [0, 2])):
            torch._dynamo.mark_dynamic(given, dims)
        given = (x, torch.randn(64, 48), heads, keys)
        assert_close(compiled(*given), function(*given), rtol=1e-4, atol=1e-5)
    (graph,) = cuesta.report().graphs
    assert graph.specialised is None and graph.fallback is None
