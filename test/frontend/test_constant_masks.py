"""Masks that a graph computes: which are proven to hide nothing or to be causal, and which are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.frontend.attention.constant_masks import classify_mask
from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate

L = 6


def graph_of(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.Graph:
    """Dynamo's graph of a function whose result is a mask."""
    graphs: list[torch.fx.Graph] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(gm.graph)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    torch._dynamo.reset()
    return graphs[0]


def classify(function: Callable[..., Any], *inputs: torch.Tensor, keys: int = L) -> str | None:
    (output,) = graph_of(function, *inputs).find_nodes(op="output")
    return classify_mask(output.args[0][0], output, L, keys)


def positions(keys: int = L) -> tuple[torch.Tensor, torch.Tensor]:
    return (torch.arange(L) + 0)[None, None, :, None], (torch.arange(keys) + 0)[None, None, None, :]


def lower() -> torch.Tensor:
    return torch.ones(L, L, dtype=torch.bool).tril()


def written() -> torch.Tensor:
    mask = torch.full((L, L), -torch.inf)
    mask.triu_(1)
    return mask


def written_by_views() -> torch.Tensor:
    mask = torch.ones(L, L, dtype=torch.bool)
    for i in range(L):
        mask[i, i + 1 :] = False
    return mask


def row_hidden_by_a_view() -> torch.Tensor:
    mask = torch.ones(L, L, dtype=torch.bool)
    row = mask[2]
    row.fill_(False)
    return mask


PROVEN: dict[str, tuple[Callable[..., Any], str | None]] = {
    "positions compared and expanded": (lambda: (positions()[1] <= positions()[0]).expand(2, -1, L, L), "causal"),
    "rows only": (lambda: (positions()[0] >= 0).expand(2, -1, L, L), "all"),
    "tril": (lower, "causal"),
    "conditions joined": (lambda: lower() & ~(positions()[0] < 0), "causal"),
    "added": (lambda: torch.where(lower(), 0.0, -torch.inf), "causal"),
    "added, lowest number": (lambda: torch.full((L, L), torch.finfo(torch.float32).min).triu(1), "causal"),
    "zeros": (lambda: torch.zeros(2, 1, L, L), "all"),
    "for each batch": (lambda: torch.stack([lower(), lower()])[:, None], "causal"),
    "written in place": (written, "causal"),
    "written row by row": (written_by_views, "causal"),
    "a vector over keys": (lambda: torch.ones(L, dtype=torch.bool), "all"),
    "a row hidden through a view": (row_hidden_by_a_view, None),
    "upper": (lambda: ~lower(), None),
    "sliding window": (lambda: lower() & (positions()[0] - positions()[1] < 3), None),
    "prefix": (lambda: lower() | (positions()[1] < 2), None),
    "a little is added": (lambda: torch.where(lower(), 0.0, -10.0), None),
    "bias": (lambda: -(positions()[0] - positions()[1]).abs().float(), None),
    "differs between batches": (lambda: torch.stack([lower(), ~lower()])[:, None], None),
    "random": (lambda: torch.rand(L, L) < 2, None),
}


@pytest.mark.parametrize(("function", "expected"), PROVEN.values(), ids=PROVEN.keys())
def test_constant_mask(function: Callable[..., Any], expected: str | None) -> None:
    assert classify(function) == expected


def test_more_keys_than_rows_are_aligned_to_the_first() -> None:
    def aligned_to(offset: int) -> Callable[[], torch.Tensor]:
        return lambda: positions(L + 2)[1] <= positions()[0] + offset

    assert classify(aligned_to(0), keys=L + 2) == "causal"
    assert classify(aligned_to(2), keys=L + 2) is None


def test_an_input_is_no_constant() -> None:
    given = torch.ones(L, dtype=torch.bool)
    assert classify(lambda x: lower() & x, given) is None
    assert classify(lambda x: lower().logical_and_(x), given) is None


def test_the_shape_of_an_input_is_constant() -> None:
    assert classify(lambda x: x.new_ones(L, L, dtype=torch.bool).tril(), torch.randn(3)) == "causal"
    assert classify(lambda x: torch.ones_like(x, dtype=torch.bool), torch.randn(L, L)) == "all"


def test_an_input_that_is_written_into_the_mask() -> None:
    def fill(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(L, L, dtype=torch.bool)
        mask[0] = x
        return mask

    assert classify(fill, torch.ones(L, dtype=torch.bool)) is None


def test_what_is_written_later_does_not_count() -> None:
    def later() -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.ones(L, L, dtype=torch.bool)
        before = mask & True
        mask[0] = False
        return before, mask

    (output,) = graph_of(later).find_nodes(op="output")
    before, after = output.args[0]
    assert classify_mask(before, output, L, L) == "all"
    assert classify_mask(after, output, L, L) is None
    (write,) = (n for n in output.graph.nodes if n.name.startswith("setitem"))
    assert classify_mask(after, write, L, L) == "all"


def test_large_values_are_not_made() -> None:
    (output,) = graph_of(lambda: (torch.zeros(1 << 14, 1) + torch.zeros(1, 1 << 14)).amax()).find_nodes(op="output")
    with pytest.raises(NotConstant, match="too many elements"):
        evaluate(output.args[0][0], output)


def test_random_numbers_stay_undrawn() -> None:
    state = torch.get_rng_state()
    graph = torch.fx.Graph()
    mask = graph.call_function(torch.rand, (L, L))
    with pytest.raises(NotConstant, match="random"):
        evaluate(mask, graph.output(mask))
    assert torch.equal(torch.get_rng_state(), state)


def test_aten_graphs_are_read_too() -> None:
    aten = torch.ops.aten
    graph = torch.fx.Graph()
    row = graph.call_function(aten.arange.default, (L,), {"device": torch.device("cuda", 0), "pin_memory": False})
    column = graph.call_function(aten.unsqueeze.default, (row, 1))
    shown = graph.call_function(aten.le.Tensor, (row, column))
    assert classify_mask(shown, graph.output(shown), L, L) == "causal"
