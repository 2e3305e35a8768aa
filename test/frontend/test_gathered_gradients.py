"""Sums at positions that depend on no input become reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.summed_positions import gathered_gradients, summed_windows
from cuesta.frontend.fx_passes.summed_positions.gathered_gradients import runs_of

Program = Callable[[Tensor], Tensor]
Split = Callable[[Program], tuple[Program, list[torch.fx.Graph]]]
aten = torch.ops.aten
SUMS = {aten.index_put, aten._unsafe_index_put, aten.scatter_add, aten.embedding_dense_backward}


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the pass rewrite graphs on the CPU as it does on a GPU."""
    monkeypatch.setattr(gathered_gradients, "_pays", lambda *_: True)
    monkeypatch.setattr(summed_windows, "is_for_gpu", lambda *_: True)


def resized(size: int | tuple[int, ...], mode: str, **options: bool) -> Program:
    return lambda x: F.interpolate(x.sin(), size=size, mode=mode, **options)


def rolled(x: Tensor) -> Tensor:
    return x.sin()[:, (torch.arange(9) + 3) % 9]


def by_distance(x: Tensor) -> Tensor:
    """Attention's scores by distance, far ones together."""
    at = (torch.arange(9)[:, None] - torch.arange(9) + 8) // 4
    return torch.gather(x.sin(), -1, at.expand(4, 9, 9))


def below(x: Tensor) -> Tensor:
    """Positions along a dim that is not the last."""
    at = ((torch.arange(6)[:, None] + torch.arange(4)) // 2).T[:, :, None].expand(4, 6, 5)
    return torch.gather(x.sin(), 0, at)


def crossed(x: Tensor) -> Tensor:
    """The second dim of x is read along the first of the result."""
    return x.sin()[:, torch.arange(5)[None, :] // 2, torch.arange(6)[:, None] // 3]


def counted(x: Tensor) -> Tensor:
    """Each row of a table is read once by each of two batches, and some rows are not."""
    return F.embedding(torch.arange(5), x.sin()) * torch.ones(2, 5, 1)


GATHERED: list[tuple[Program, tuple[int, ...]]] = [
    (resized((20, 31), "bilinear"), (2, 3, 7, 9)),
    (resized((20, 31), "bilinear", align_corners=True), (2, 3, 7, 9)),
    (resized((4, 5), "bilinear"), (2, 3, 7, 9)),
    (resized((7, 18), "bilinear"), (2, 3, 7, 9)),
    (resized((15, 18), "bicubic"), (2, 3, 7, 9)),
    (resized(31, "linear"), (2, 3, 9)),
    (resized((8, 9, 5), "trilinear"), (2, 3, 4, 9, 7)),
    (rolled, (5, 9)),
    (by_distance, (4, 9, 5)),
    (below, (5, 6, 5)),
    (crossed, (3, 4, 2)),
    (counted, (9, 8)),
]


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(("function", "sizes"), GATHERED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_become_reads(function: Program, sizes: tuple[int, ...], dtype: torch.dtype, split: Split) -> None:
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = x.to(dtype).requires_grad_(), x.clone().requires_grad_()
    compiled, graphs = split(function)
    weights = torch.randn(function(x).shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    compiled(ours).backward(weights.to(dtype))
    function(theirs).backward(weights)
    assert not {packet_of(node) for graph in graphs for node in graph.nodes} & SUMS
    assert ours.grad is not None and theirs.grad is not None
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    scale = theirs.grad.abs().max().item()
    torch.testing.assert_close(ours.grad.double() / scale, theirs.grad / scale, atol=tolerance, rtol=0)


def by_table(x: Tensor) -> Tensor:
    """The elements of one place are no neighbours."""
    return x.sin()[(torch.arange(9)[:, None] - torch.arange(9)).abs()]


def at_data(x: Tensor) -> Tensor:
    return x.sin()[:, (x[0, :5] > 0).long()]


def far_ones_together(x: Tensor) -> Tensor:
    """Eleven elements at one place, one after the other: as slow as atomics."""
    at = (torch.arange(13)[:, None] - torch.arange(13)).clamp(-1, 1) + 1
    return torch.gather(x.sin(), -1, at.expand(4, 13, 13))


def almost_all_at_one(x: Tensor) -> Tensor:
    """One place adds up 1000 elements and the others none: each would read 1000."""
    return x.sin()[:, torch.arange(1000) // 1000]


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("function", "sizes"),
    [(by_table, (9, 4)), (at_data, (5, 9)), (far_ones_together, (4, 13, 3)), (almost_all_at_one, (2, 1000))],
)
def test_other_sums_stay(function: Program, sizes: tuple[int, ...], split: Split) -> None:
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled, graphs = split(function)
    compiled(ours).sum().backward()
    function(theirs).sum().backward()
    assert {packet_of(node) for graph in graphs for node in graph.nodes} & SUMS
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.usefixtures("on_a_gpu")
def test_layers_with_the_same_positions_look_at_them_once(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []
    monkeypatch.setattr(gathered_gradients, "runs_of", lambda at, places: asked.append(at) or runs_of(at, places))

    def layers(x: Tensor) -> Tensor:
        at = ((torch.arange(9)[:, None] - torch.arange(9) + 8) // 4).expand(4, 9, 9)
        return torch.gather(torch.gather(x.sin(), -1, at).cos(), -1, at)

    x = torch.randn(4, 9, 9, generator=torch.Generator().manual_seed(1))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    split(layers)[0](ours).sum().backward()
    layers(theirs).sum().backward()
    assert len(asked) == 1
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_cpu_adds(split: Split) -> None:
    compiled, graphs = split(rolled)
    compiled(torch.randn(5, 9, requires_grad=True)).sum().backward()
    assert {packet_of(node) for graph in graphs for node in graph.nodes} & SUMS


def test_runs_are_the_elements_of_each_place() -> None:
    runs = runs_of(torch.tensor([[0, 0, 2, -1], [3, 2, 1, 0]]), 4)
    assert runs is not None
    assert runs.first.tolist() == [[0, 0, 2, 3], [3, 2, 1, 0]]
    assert runs.count.tolist() == [[2, 0, 1, 1], [1, 1, 1, 1]]
    assert runs.longest == 2 and runs.is_ragged


@pytest.mark.parametrize("positions", [[0, 1, 0], [0, 4], [-5, 0]])
def test_elements_apart_and_positions_outside_have_no_runs(positions: list[int]) -> None:
    assert runs_of(torch.tensor(positions), 4) is None
