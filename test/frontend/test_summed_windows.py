"""Gradients of resized images become sums over windows, which read each element once for all corners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.summed_positions import summed_windows
from cuesta.frontend.fx_passes.summed_positions.windows import Term, windows_of

Program = Callable[[Tensor], Tensor]
Split = Callable[[Program], tuple[Program, list[torch.fx.Graph]]]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the pass rewrite graphs on the CPU as it does on a GPU."""
    monkeypatch.setattr(summed_windows, "is_for_gpu", lambda *_: True)


def resized(factor: float, mode: str) -> Program:
    return lambda x: F.interpolate(x.sin(), scale_factor=factor, mode=mode)


def twice(x: Tensor) -> Tensor:
    """Two images are resized, of which one gradient is added to the other."""
    y = x.sin()
    small, large = (F.interpolate(y, scale_factor=n, mode="bilinear") for n in (2, 3))
    return torch.cat([small.flatten(), large.flatten()])


def one_after_the_other(x: Tensor) -> Tensor:
    """The gradient of the first resizing sums what the second one's has summed."""
    y = F.interpolate(x.sin(), scale_factor=2, mode="bilinear")
    return F.interpolate(y, scale_factor=2, mode="bilinear")


def masked(x: Tensor) -> Tensor:
    """Factors that are no products of one along each dim."""
    mask = (torch.arange(12)[:, None] + torch.arange(14)) % 2
    return F.interpolate(x.sin(), scale_factor=2, mode="bilinear") * mask


def gradients(function: Program, sizes: tuple[int, ...], split: Split) -> tuple[Tensor, Tensor, torch.fx.Graph]:
    """Our gradient, that of eager in f64, and the backward graph."""
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = x.float().requires_grad_(), x.clone().requires_grad_()
    compiled, graphs = split(function)
    factors = torch.randn(function(x).shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    compiled(ours).backward(factors.float())
    function(theirs).backward(factors)
    assert ours.grad is not None and theirs.grad is not None
    return ours.grad.double(), theirs.grad, graphs[-1]


def reads(graph: torch.fx.Graph) -> int:
    return sum(packet_of(node) is aten._unsafe_index for node in graph.nodes)


@pytest.mark.parametrize(
    ("function", "sizes", "most"),
    [
        (resized(2, "nearest"), (2, 3, 5, 6), 4),
        (resized(2, "nearest"), (2, 3, 4, 5, 6), 8),
        (resized(2, "bilinear"), (2, 3, 6, 7), 16),
        (resized(2, "bicubic"), (2, 3, 6, 7), 20),
        (resized(8, "bilinear"), (2, 3, 6, 7), 32),
        (resized(0.25, "nearest"), (2, 3, 8, 8), 1),
        (twice, (2, 3, 6, 7), 16 + 12),
        (one_after_the_other, (2, 3, 6, 7), 16 + 16),
    ],
)
def test_elements_are_read_once(function: Program, sizes: tuple[int, ...], most: int, split: Split) -> None:
    ours, theirs, graph = gradients(function, sizes, split)
    found = {packet_of(node) for node in graph.nodes}
    assert not found & {aten.index_put, aten._unsafe_index_put, aten.sum}
    assert 0 < reads(graph) <= most
    torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), atol=1e-5, rtol=0)


def test_factors_that_are_no_products_stay(split: Split) -> None:
    ours, theirs, graph = gradients(masked, (2, 3, 6, 7), split)
    assert {packet_of(node) for node in graph.nodes} & {aten.sum, aten.index_put, aten._unsafe_index_put}
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_windows_of_one_term() -> None:
    positions = torch.tensor([0, 0, 2, 2, 2])
    (window,) = windows_of([Term((positions,), torch.ones(5))], [4]) or []
    assert window.first.tolist() == [0, 0, 2, 0]
    assert window.count.tolist() == [2, 0, 3, 0]
    assert window.factors is None


def test_elements_that_count_for_nothing_are_left_out() -> None:
    here, next_one = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, 1, 1])
    part = torch.tensor([0.0, 0.5, 0.0, 0.5])
    (window,) = windows_of([Term((here,), 1 - part), Term((next_one,), part)], [2]) or []
    assert window.first.tolist() == [0, 1]
    assert window.count.tolist() == [2, 3]
    assert window.factors is not None
    assert window.factors.tolist() == [[1, 0.5, 0], [0.5, 1, 1]]


@pytest.mark.parametrize(
    ("positions", "places"), [([0, 1, 0], 2), ([0, 3], 2)], ids=["no neighbours", "outside of the places"]
)
def test_no_windows(positions: list[int], places: int) -> None:
    assert windows_of([Term((torch.tensor(positions),), torch.ones(len(positions)))], [places]) is None
