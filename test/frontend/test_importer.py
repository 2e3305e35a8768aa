"""The importer: what a module says of its graph, and what it leaves to ATen."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuesta.dialects import walk

Check = Callable[..., Any]


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X, Y = floats(4, 6), floats(4, 6).flip(0)
WHOLE = torch.arange(-12, 12).reshape(4, 6)

# -- inputs and outputs ---------------------------------------------------------------------------


def test_python_numbers_and_none(matches_eager: Check) -> None:
    matches_eager(lambda x, i, f: x * i + f, X, 3, 2.5)
    matches_eager(lambda x, flag: x + 1 if flag else x, X, True)
    matches_eager(lambda x: {"a": x + 1, "b": [None, 3, x]}, X)


def test_result_twice_and_argument_returned(matches_eager: Check) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return y, x, y

    matches_eager(function, X)


def test_constants_of_the_graph_become_arguments(capture: Any) -> None:
    table = torch.tensor([1.0, 2, 3, 4, 5, 6])
    traced = capture.compile(lambda x: x + torch.tensor([1.0, 2, 3, 4, 5, 6]))
    torch.testing.assert_close(traced(X), X + table)
    (name,) = capture.run.graph.convention.constants
    entry = capture.run.graph.module.body.operations[0].regions[0].blocks[0]
    assert [str(a.type) for a in entry.arguments] == ["tensor<4x6xf32>", "tensor<6xf32>"], name


def test_strides_stand_on_arguments_and_results(capture: Any) -> None:
    capture.compile(lambda x: (x.transpose(0, 1), x * 2))(floats(6, 4).t())
    function = capture.run.graph.module.body.operations[0]
    found = {n: [str(a["cuesta.strides"]) for a in function.attributes[n]] for n in ("arg_attrs", "res_attrs")}
    assert found == {"arg_attrs": ["[1, 4]"], "res_attrs": ["[4, 1]", "[1, 4]"]}


# -- mutation -------------------------------------------------------------------------------------


def add_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def swap(x: torch.Tensor, y: torch.Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def write_part(x: torch.Tensor) -> torch.Tensor:
    x[:, 1] = 5
    x[0] += 1
    return x.sum()


def write_from_another_type(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(torch.arange(6))


def write_through_a_view(x: torch.Tensor) -> torch.Tensor:
    flat = x.view(-1)
    flat.mul_(2)
    return flat


def zero(x: torch.Tensor) -> torch.Tensor:
    old = x.clone()
    x.zero_()
    return old


MUTATIONS = (add_in_place, write_part, write_from_another_type, write_through_a_view, zero)


@pytest.mark.parametrize("function", MUTATIONS, ids=lambda f: f.__name__)
def test_mutation(function: Any, matches_eager: Check) -> None:
    matches_eager(function, X.clone())


def test_mutation_of_views_of_other_types_and_of_two(matches_eager: Check) -> None:
    matches_eager(add_in_place, X.clone().t())
    matches_eager(add_in_place, X.bfloat16())
    matches_eager(swap, X.clone(), Y.clone())


# -- calls into ATen ------------------------------------------------------------------------------

#: A word of the reason → a call that ATen keeps for it.
DECLINED: dict[str, tuple[Any, ...]] = {
    "no op for it": (torch.special.airy_ai, X),
    "bag lengths": (
        lambda x: F.embedding_bag(torch.tensor([1, 0, 2]), x, torch.tensor([0, 1])), X,
    ),
    "64 elements": (lambda x: x.repeat(1, 11).sort(1).values, X),
    "along rows": (lambda x: (x.logcumsumexp(1), x.cummax(1)), X),
    "Fourier": (lambda x: torch.fft.rfft(x).real, X),
    "LAPACK": (lambda x: torch.linalg.svdvals(x.to(torch.complex64)), X),
    "computed positions": (lambda x: (x * 1).as_strided_scatter(x[:2, :2], (2, 2), (6, 1)), X),
    "uint8": (lambda x: x.any(1), WHOLE.byte()),
    "without elements": (lambda x: x[:0].sum(), X),
    "real numbers": (lambda x: x.to(torch.complex64).acos().real, X),
    "float8_e4m3fn": (lambda x: x.to(torch.float8_e4m3fn).clone().float(), X),
    "class weights": (lambda x, t: F.nll_loss(x, t, x[0]), X, torch.tensor([2, 0, 1, 5])),
    "batch dim": (F.nll_loss, X[0], torch.tensor(2)),
    "batched boundaries": (lambda x: torch.searchsorted(torch.tensor([[0.0, 1.0]] * 4), x), X),
    "sorter": (
        lambda x: torch.searchsorted(torch.tensor([1.0, 0.0]), x, sorter=torch.tensor([1, 0])), X,
    ),
    "different dtypes": (lambda x: torch.bucketize(x, torch.tensor([0, 1])), X),
    "narrow float": (
        lambda x: x + torch.arange(0, 3, 0.5, dtype=torch.bfloat16), X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", DECLINED)
def test_declined_calls_run_and_say_why(cause: str, matches_eager: Check) -> None:
    run = matches_eager(*DECLINED[cause])
    assert any(cause in reason for reason in run.reasons().values())


def test_call_keeps_every_kind_of_argument(matches_eager: Check) -> None:
    def function(x: torch.Tensor) -> Any:
        found = x.repeat(1, 11).kthvalue(2, 1, keepdim=True)
        searched = torch.searchsorted(torch.tensor([[0.0, 1.0]] * 4), x, side="right")
        pooled = torch.ops.aten.im2col(x[None, None], [2, 3], [1, 1], [0, 0], [1, 2])
        apart = torch.ops.aten._cdist_forward(x, x, float("inf"), None)
        return found, searched, pooled, apart, x.to(torch.complex64).real

    run = matches_eager(function, X)
    called = {"aten.kthvalue.default", "aten.searchsorted.Tensor", "aten.im2col.default"}
    assert called | {"aten._cdist_forward.default"} <= set(run.reasons())


def test_strided_call_gets_its_strides(matches_eager: Check) -> None:
    matches_eager(lambda x: (x.t() * 2).as_strided((3, 2), (1, 4), 1), X)


# -- locations ------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)) + 1


def test_every_op_names_its_line_and_module(capture: Any) -> None:
    with torch.no_grad():
        capture.compile(torch.nn.Sequential(Block()))(X)
    operations = [op for op in walk(capture.run.graph.module.operation) if op.name.startswith("cuesta.")]
    by_name = {op.name: str(op.location) for op in operations}
    line = Block.forward.__code__.co_firstlineno + 1
    assert re.search(rf'"0:relu"\("{re.escape(__file__)}":{line}:', by_name["cuesta.relu"])
    assert '"0.inner:addmm"' in by_name["cuesta.addmm"]
    assert all('.py":' in text for text in by_name.values())
