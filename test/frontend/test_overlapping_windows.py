"""Sums at the positions of overlapping windows become sums of shifted windows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from cuesta.frontend.fx_passes.summed_positions.overlapping_windows import Windows, add_windows

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("sizes", "strides", "places", "expected"),
    [
        ((7, 256), (128, 1), 1024, Windows((0, 1), 0, 128)),
        # Windows of 12 rows that begin every 4, of 2 batches.
        ((2, 3, 12, 5), (100, 20, 5, 1), 200, Windows((0, 1, 2, 3), 1, 4)),
        # The rows of all batches lie between those of a window.
        ((3, 2, 8, 5), (5, 60, 15, 1), 180, Windows((1, 2, 0, 3), 0, 4)),
    ],
)
def test_windows(sizes: Sequence[int], strides: Sequence[int], places: int, expected: Windows) -> None:
    assert Windows.of(sizes, strides, places) == expected


@pytest.mark.parametrize(
    ("sizes", "strides", "places"),
    [
        ((4, 8), (8, 1), 32),  # no overlap
        ((4, 8), (16, 1), 64),  # gaps
        ((4, 8), (3, 1), 17),  # 8 is no multiple of 3
        ((4, 8), (4, 1), 24),  # places behind the last window
        ((16, 64), (1, 1), 79),  # 16 windows meet
        ((4, 4, 8), (4, 4, 1), 32),  # two dims overlap
    ],
)
def test_other_views(sizes: Sequence[int], strides: Sequence[int], places: int) -> None:
    assert Windows.of(sizes, strides, places) is None


@pytest.mark.parametrize(
    ("sizes", "strides", "places"), [((7, 256), (128, 1), 1024), ((3, 2, 8, 5), (5, 60, 15, 1), 180)]
)
def test_shifted(sizes: Sequence[int], strides: Sequence[int], places: int) -> None:
    def of_windows(grad: Tensor) -> Tensor:
        positions = torch.arange(places).as_strided(sizes, strides)
        return grad.new_zeros(places).index_add(0, positions.reshape(-1), grad.reshape(-1))

    grad = torch.randn(sizes)
    gm = make_fx(of_windows, tracing_mode="fake")(grad)
    add_windows(gm)
    assert not gm.graph.find_nodes(op="call_function", target=aten.index_add.default)
    torch.testing.assert_close(gm(grad), of_windows(grad))


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_chunks(target: str) -> None:
    """Windows of a tensor and their gradient; the rows of all batches lie between those of a window."""

    def chunks(x: Tensor) -> Tensor:
        shown = x.as_strided((2, 3, 8, 5), (5, 40, 10, 1))
        return (shown.sin() * shown).as_strided((2, 3, 4, 2, 5), (120, 40, 10, 5, 1)).sum((1, 2))

    x = torch.randn(16, 2, 5, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    compiled = torch.compile(chunks, backend="cuesta", options={"target": target})
    torch.testing.assert_close(compiled(y), chunks(x))
    chunks(x).square().sum().backward()
    compiled(y).square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad)


def test_report_is_whole() -> None:
    """The gradient of windows that overlap is one program, and calls nothing."""
    x = torch.randn(2, 64, requires_grad=True)
    torch.compile(lambda x: x.sin().as_strided((2, 7, 16), (64, 8, 1)).sin().sum(), backend="cuesta")(x).backward()
    assert "index_add" not in str(cuesta.report())
    assert [graph["name"] for graph in cuesta.report().as_dict()["graphs"]] == ["forward", "backward"]
