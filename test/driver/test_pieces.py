"""Graphs that are cut at steps which run in Python: what goes into which piece, and in which order pieces run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from cuesta.driver.calling import Boxed
from cuesta.driver.pieces import in_pieces, laid_out
from cuesta.errors import ExecutionError, InputError
from cuesta.frontend.python_steps import python_steps


@torch.library.custom_op("cuesta_test_pieces::bump", mutates_args={"x"})
def bump(x: Tensor) -> None:
    x.add_(100)


@torch.library.custom_op("cuesta_test_pieces::transposed", mutates_args=())
def transposed(x: Tensor) -> Tensor:
    """Says that it keeps the layout, and does not."""
    return (x * 2).t().contiguous().t()


transposed.register_fake(torch.empty_like)

aten = torch.ops.aten


def in_python(*names: str) -> Any:
    """Cuts a graph at the overloads of these names, and at those that python_steps finds."""

    def steps(gm: GraphModule) -> list[torch.fx.Node]:
        found = python_steps(gm)
        return [n for n in gm.graph.nodes if n in found or (n.op == "call_function" and str(n.target) in names)]

    return steps


def cut(function: Any, inputs: list[Tensor], *names: str) -> tuple[list[Any], list[list[str]]]:
    """The results of a function that runs in pieces, and the ops of each piece."""
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    pieces: list[list[str]] = []

    def interpret(piece: GraphModule, name: str) -> Boxed:
        pieces.append([str(n.target) for n in piece.graph.nodes if n.op == "call_function"])
        return lambda args: list(piece(*args))

    return in_pieces(gm, in_python(*names)(gm), interpret)(list(inputs)), pieces


def test_what_needs_no_step_is_one_piece() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        first = aten.erf(x)
        second = aten.erf(x + 1)
        return (first * second, aten.cos(x))

    x = torch.randn(4)
    results, pieces = cut(function, [x], "aten.erf.default")
    assert_close(results, list(function(x)))
    assert pieces == [["aten.add.Tensor", "aten.cos.default"], ["aten.mul.Tensor"]]


def test_views_are_made_again_where_they_are_read() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        doubled = x * 2
        row = doubled.t()[1]
        return (aten.erf(doubled) + row,)

    x = torch.randn(3, 3)
    results, pieces = cut(function, [x], "aten.erf.default")
    assert_close(results, list(function(x)))
    assert pieces[1] == ["aten.t.default", "aten.select.int", "aten.add.Tensor"]


def test_an_argument_is_written_after_every_read() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        fresh = x * 2
        total = aten.erf(x.sum(0))
        total = total + x.sum(0)
        return (aten.copy_(x, fresh), total)  # AOTAutograd's writes come last

    x = torch.randn(3)
    before = x.clone()
    results, _ = cut(function, [x], "aten.erf.default")
    assert results[0] is x
    assert_close(x, before * 2)
    assert_close(results[1], torch.erf(before.sum(0)) + before.sum(0))


def test_a_step_that_writes_keeps_reads_on_their_side() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 1
        before = y + 1
        parts = aten.split(before, 2)
        torch.ops.cuesta_test_pieces.bump(y)
        return (before, y + 1, parts[1])

    x = torch.zeros(4)
    results, pieces = cut(function, [x])
    assert_close(results, [torch.ones(4), torch.full((4,), 101.0), torch.ones(2)])
    assert len(pieces) == 2


def test_random_numbers_are_drawn_in_order() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        first = aten.bernoulli.p(x, 0.5)
        second = aten.rand_like(x)
        third = aten.bernoulli.p(x, 0.5)
        return (third, second, first)

    x = torch.randn(64)
    torch.manual_seed(1)
    expected = list(function(x))
    torch.manual_seed(1)
    results, _ = cut(function, [x], "aten.rand_like.default")
    assert_close(results, expected, rtol=0, atol=0)


def test_the_next_piece_gets_the_layout_that_it_was_traced_with() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (torch.ops.cuesta_test_pieces.transposed(x),)

    x = torch.randn(2, 3)
    (result,), pieces = cut(function, [x], "cuesta_test_pieces.transposed.default")
    assert result.stride() == (3, 1)
    assert_close(result, x * 2)
    assert pieces == []


def test_another_shape_than_was_traced_is_an_error() -> None:
    with pytest.raises(ExecutionError, match=r"op gave torch.float32\[3\]; the graph was traced with .*\[2\]"):
        laid_out(torch.zeros(3), torch.zeros(2), "op")


def test_what_nobody_reads_may_have_another_shape() -> None:
    """torch's trace has as many counts along dim -1 as there are elements."""

    def runs(x: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.unique_consecutive(x, return_counts=True, dim=-1)
        return found

    x = torch.tensor([1.0, 1.0, 0.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch._dynamo.reset()
        assert_close(torch.compile(runs, backend="cuesta", fullgraph=True)(x), runs(x))


def test_a_step_does_not_read_what_has_no_memory() -> None:
    gone = torch.arange(4.0)
    gone.untyped_storage().resize_(0)
    gm = make_fx(lambda x: (x.nonzero(),), tracing_mode="fake")(torch.arange(4.0))
    steps = [node for node in gm.graph.nodes if node.op == "call_function"]
    run = in_pieces(gm, steps, lambda piece, name: lambda args: list(piece(*args)))
    assert_close(run([torch.arange(4.0)]), [torch.tensor([[1], [2], [3]])])
    with pytest.raises(InputError, match="operand of aten.nonzero.default: its storage holds 0 bytes"):
        run([gone])
