"""Tensors of more than 2^31 elements: positions, counts and offsets are 64 bits wide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta

#: Elements; where something is, lies behind 2^31.
COUNT = (1 << 31) + 4096
LAST = COUNT - 3
GIB = 1 << 30
#: The form whose sizes come with the call.
SYMBOLIC = pytest.param(True, marks=pytest.mark.slow)


@pytest.fixture(autouse=True)
def memory() -> None:
    """Two of the tensors, and room for others on the machine."""
    (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
    free = int(line.split()[1]) * 1024
    if free < 7 * GIB:
        pytest.skip(f"{free / GIB:.1f} GiB of memory are free, 7 are wanted")


def compiled(function: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)


def calls() -> list[str]:
    return [call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls]


@pytest.mark.parametrize("dynamic", [False, SYMBOLIC])
def test_a_line(dynamic: bool, cuesta_only: None) -> None:
    """Elementwise, in place, read at computed positions, searched, summed."""

    def f(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        x.add_(1)
        return x[at], x.argmax(), (x == 6).any(), x[LAST - 1 :] * 2

    x = torch.zeros(COUNT, dtype=torch.uint8)
    x[LAST] = 5
    found, largest, any_six, end = compiled(f, dynamic)(x, torch.tensor([0, LAST, LAST + 1]))
    assert x[LAST - 1 :].tolist() == [1, 6, 1, 1] and x[0] == 1
    assert found.tolist() == [1, 6, 1]
    assert (int(largest), bool(any_six)) == (LAST, True)
    assert end.tolist() == [2, 12, 2, 2]
    # Alone: where nothing cuts the line, or others read it too, its numbers are written as int64 first, 16 GiB of them.
    assert int(compiled(lambda x: x.sum())(x)) == COUNT + 5
    assert not calls()


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows(dynamic: bool, cuesta_only: None) -> None:
    """Rows whose numbers times their length are beyond 2^31, across and along; a row that is written at a computed
    position; what is written turned."""

    def f(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        return x.sum(1), x.index_select(0, at), x.t().contiguous()

    def write(x: Tensor, at: Tensor) -> None:
        x.index_fill_(0, at, 7)

    rows, columns = (1 << 16) + 3, 1 << 15
    x = torch.zeros(rows, columns, dtype=torch.int8)
    x[-1, -2], x[-2, 5] = 3, 4
    along, chosen, turned = compiled(f, dynamic)(x, torch.tensor([rows - 2, 0]))
    down = compiled(lambda x: x.sum(0), dynamic)(x)
    assert along.tolist() == [*[0] * (rows - 2), 4, 3]
    assert (down.sum(), down[-2], down[5]) == (7, 3, 4)
    assert (chosen.sum(), chosen[0, 5]) == (4, 4)
    assert turned.is_contiguous() and (turned[-2, -1], turned[5, -2], turned[5, -1]) == (3, 4, 0)
    assert not calls()
    compiled(write, dynamic)(x, torch.tensor([rows - 1]))
    assert (x.sum(dtype=torch.int64), x[-1].sum()) == (7 * columns + 4, 7 * columns)


def test_a_range_and_parts(cuesta_only: None) -> None:
    """What is computed from positions, and a concatenation whose second part begins beyond 2^31."""

    def f(y: Tensor) -> Tensor:
        return torch.cat([(torch.arange(COUNT) % 251).to(torch.uint8), y * 2])

    result = compiled(f)(torch.tensor([1, 2], dtype=torch.uint8))
    assert result[-4:].tolist() == [(COUNT - 2) % 251, (COUNT - 1) % 251, 2, 4]
    assert result[1 << 31] == (1 << 31) % 251


def test_an_expanded_argument_takes_no_memory(cuesta_only: None) -> None:
    x = torch.full((1, 1), 3, dtype=torch.int8).expand((1 << 16) + 1, 1 << 15)
    assert int(compiled(lambda x: x.sum())(x)) == 3 * x.numel()


@pytest.mark.slow
def test_backwards_and_between(cuesta_only: None) -> None:
    """Strides below and sizes beyond: a flip, and every other column of a wider tensor."""
    x = torch.zeros(2, COUNT, dtype=torch.bool)[:, ::2]
    x[1, -1] = True
    flipped, wide = compiled(lambda x: (x.flip(1)[:, :4], (~x).sum(1)))(x)
    assert flipped.tolist() == [[False] * 4, [True, False, False, False]]
    assert wide.tolist() == [x.shape[1], x.shape[1] - 1]
