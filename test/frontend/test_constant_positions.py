"""Positions that depend on no input are computed while compiling, with all that shares their arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

Program = Callable[..., Tensor]
Split = Callable[[Program], tuple[Program, list[torch.fx.Graph]]]


def targets(graph: torch.fx.Graph) -> set[str]:
    return {str(node.target) for node in graph.nodes if node.op == "call_function"}


def test_positions_and_their_weights_are_held(split: Split) -> None:
    def resized(x: Tensor) -> Tensor:
        return F.interpolate(x.sin(), size=(20, 31), mode="bilinear")

    x = torch.randn(2, 3, 7, 9, requires_grad=True)
    compiled, graphs = split(resized)
    result = compiled(x)
    torch.testing.assert_close(result, resized(x))
    result.sum().backward()
    assert len(graphs) == 2
    for graph in graphs:
        assert graph.find_nodes(op="get_attr")
        assert not {t for t in targets(graph) if "arange" in t or "clamp" in t or "convert" in t}


def test_ranges_and_masks_stay_in_the_kernels(split: Split) -> None:
    """A kernel computes an `arange` sooner than it reads one, and a mask is no position."""

    def masked(x: Tensor) -> Tensor:
        at = torch.arange(8)
        return torch.where(at[:, None] * 2 >= at, x.sin()[at], 0)

    x = torch.randn(8, 8, requires_grad=True)
    compiled, graphs = split(masked)
    torch.testing.assert_close(compiled(x), masked(x))
    assert not graphs[0].find_nodes(op="get_attr")


@pytest.mark.parametrize("at", [9, -10])
def test_a_position_outside_is_still_refused(at: int) -> None:
    def read(x: Tensor) -> Tensor:
        return x[torch.arange(3) * 0 + at]

    with pytest.raises(IndexError):
        torch.compile(read, backend="cuesta")(torch.randn(9))


def test_equal_positions_are_held_once(split: Split) -> None:
    def twice(x: Tensor) -> Tensor:
        first = x.sin()[torch.arange(8) * 3 % 8]
        return first.cos()[(torch.arange(8) * 3).remainder(8)]

    x = torch.randn(8, 4, requires_grad=True)
    compiled, graphs = split(twice)
    result = compiled(x)
    torch.testing.assert_close(result, twice(x))
    assert len({node.target for node in graphs[0].find_nodes(op="get_attr")}) == 1


def test_sizes_that_vary_are_computed_at_run_time() -> None:
    def resized(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")

    compiled = torch.compile(resized, backend="cuesta", dynamic=True)
    for size in (5, 6, 7):
        x = torch.randn(1, 2, size, size)
        torch.testing.assert_close(compiled(x), resized(x))


def test_positions_that_are_returned_are_the_callers() -> None:
    def read(x: Tensor) -> tuple[Tensor, Tensor]:
        at = torch.arange(8) * 3 % 8
        return x[at], at.view(2, 4)

    x = torch.randn(8)
    compiled = torch.compile(read, backend="cuesta")
    _, at = compiled(x)
    at.add_(1)
    torch.testing.assert_close(compiled(x), read(x))
