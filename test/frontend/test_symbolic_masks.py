"""Masks over symbolic sizes: what is proven of them whatever the sizes are, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.frontend.attention.constant_masks import classify_mask

Tensor = torch.Tensor


def classify(function: Callable[..., Any], *more: Any) -> str | None:
    """What the mask that a function makes of a tensor [batch, length] is, over [.., length, length]."""
    found: list[str | None] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        (output,) = gm.graph.find_nodes(op="output")
        (x,) = (
            node.meta["example_value"]
            for node in gm.graph.find_nodes(op="placeholder")
            if isinstance(node.meta["example_value"], Tensor) and node.meta["example_value"].dim() == 2
        )
        found.append(classify_mask(output.args[0][0], output, x.shape[1], x.shape[1]))
        return gm.forward

    torch._dynamo.reset()
    with_x = torch.compile(lambda x, *m: (function(x, *m), x + 1), backend=backend, fullgraph=True, dynamic=True)
    with_x(torch.zeros(3, 6), *more)
    torch._dynamo.reset()
    return found[0]


def rows(x: Tensor) -> Tensor:
    return (torch.arange(x.shape[1]) + 0)[None, None, :, None]


def columns(x: Tensor) -> Tensor:
    return (torch.arange(x.shape[1]) + 0)[None, None, None, :]


def ones(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)


def positions(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)


def packed(x: Tensor, first: int) -> Tensor:
    """As transformers' models tell where a sequence that is packed with others begins."""
    at = positions(x)
    sequence = (torch.diff(at, prepend=at[:, :1] - first, dim=-1) != 1).cumsum(-1)
    batch = torch.arange(x.shape[0])[:, None, None, None]
    return (sequence[batch, rows(x)] == sequence[batch, columns(x)]) & (columns(x) <= rows(x))


CASES: dict[str, tuple[Callable[[Tensor], Tensor], str | None]] = {
    "compared": (lambda x: columns(x) <= rows(x), "causal"),
    "the other way, expanded": (
        lambda x: (rows(x) > columns(x) - 1).expand(x.shape[0], -1, -1, -1),
        "causal",
    ),
    "tril": (lambda x: ones(x).tril(), "causal"),
    "conditions joined": (lambda x: (columns(x) <= rows(x)) & (columns(x) < x.shape[1]) & (rows(x) >= 0), "causal"),
    "found": (
        lambda x: positions(x)[torch.arange(x.shape[0])[:, None, None, None], columns(x)] <= rows(x),
        "causal",
    ),
    "no packed sequences": (lambda x: packed(x, 1), "causal"),
    "everything": (lambda x: ones(x), "all"),
    "positions are there": (lambda x: columns(x) + x.shape[1] >= 1, "all"),
    "the last is there": (lambda x: (columns(x) <= x.shape[1] - 1) & (rows(x) - x.shape[1] < 0), "all"),
    "packed otherwise": (lambda x: packed(x, 2), None),
    "upper": (lambda x: columns(x) >= rows(x), None),
    "one more": (lambda x: columns(x) <= rows(x) + 1, None),
    "one less": (lambda x: columns(x) < rows(x), None),
    "a window that the traced call fits": (lambda x: (columns(x) <= rows(x)) & (rows(x) - columns(x) < 4096), None),
    "the last is hidden": (lambda x: columns(x) < x.shape[1] - 1, None),
    "nothing": (lambda x: torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool), None),
    "the diagonal": (lambda x: columns(x) == rows(x), None),
    "every other": (lambda x: 2 * columns(x) <= rows(x), None),
    "by batches": (lambda x: torch.arange(x.shape[0])[:, None, None, None] + columns(x) <= rows(x), None),
    "in place": (lambda x: ones(x).tril_().logical_not_(), None),
    "of the input": (lambda x: (columns(x) <= rows(x)) & (x > 0)[:, None, None, :], None),
    "looked up beyond the start": (
        lambda x: positions(x)[torch.arange(x.shape[0])[:, None, None, None], columns(x) - 1] <= rows(x),
        None,
    ),
    "a part": (lambda x: columns(x)[..., 1:] <= rows(x)[:, :, 1:], None),
}


@pytest.mark.parametrize(("function", "expected"), CASES.values(), ids=CASES.keys())
def test_mask(function: Callable[[Tensor], Tensor], expected: str | None) -> None:
    assert classify(function) == expected


def test_a_number_that_is_passed_may_be_anything() -> None:
    assert classify(lambda x, n: columns(x) + n >= 0, 7) is None
    assert classify(lambda x, n: columns(x) <= rows(x) + n, 7) is None


@pytest.mark.parametrize("name", [name for name, (_, kind) in CASES.items() if kind is not None])
def test_what_is_proven_holds(name: str) -> None:
    function, kind = CASES[name]
    for batch, length in ((1, 1), (2, 1), (3, 7), (1, 40)):
        mask = function(torch.zeros(batch, length)).expand(batch, 1, length, length)
        whole = torch.ones(length, length, dtype=torch.bool)
        assert bool((mask == (whole.tril() if kind == "causal" else whole)).all())
