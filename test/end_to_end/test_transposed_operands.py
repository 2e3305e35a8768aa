"""Transposed operands: squares in registers, tiles that reach back, results in place, against eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

_TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int8]


def _numbers(*sizes: int, dtype: torch.dtype) -> Tensor:
    return (torch.randn(sizes) * 10).to(dtype)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("sizes", [(100, 141), (37, 73), (15, 200), (16, 16)])
def test_pointwise(sizes: tuple[int, int], dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
        return torch.where(x.t() > y, x.t(), y * 2) + bias

    arguments = [_numbers(*shape, dtype=dtype) for shape in (sizes, sizes[::-1], sizes[:1])]
    assert_close(torch.compile(function, backend="cuesta")(*arguments), function(*arguments))


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_in_place(dtype: torch.dtype) -> None:
    """What a tile or a square did again would be added twice."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return y.add_(x.t())

    x, y = _numbers(100, 141, dtype=dtype), _numbers(141, 100, dtype=dtype)
    expected = y + x.t()
    torch.compile(function, backend="cuesta")(x, y)
    assert_close(y, expected)


def test_channels_last() -> None:
    x = torch.randn(2, 37, 19, 21)
    y = torch.randn(2, 37, 19, 21).contiguous(memory_format=torch.channels_last)
    assert_close(torch.compile(torch.add, backend="cuesta")(x, y), x + y)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("channels", [3, 24, 64, 130])
def test_copies_between_layouts(channels: int, dtype: torch.dtype) -> None:
    """Tiles are long along the pixels: of what is copied, in both directions, and of what is computed."""
    x = _numbers(2, channels, 19, 21, dtype=dtype)
    beside = x.contiguous(memory_format=torch.channels_last)

    def function(x: Tensor, beside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.contiguous(memory_format=torch.channels_last), beside.contiguous(), x * 2 + beside

    results = torch.compile(function, backend="cuesta")(x, beside)
    assert_close(results, function(x, beside), check_stride=True)


def test_sizes_of_the_call() -> None:
    compiled = torch.compile(lambda x, y: x.t() + y * 2, backend="cuesta", dynamic=True)
    for rows, columns in ((100, 100), (7, 90), (90, 7), (33, 470)):
        x, y = torch.randn(rows, columns), torch.randn(columns, rows)
        assert_close(compiled(x, y), x.t() + y * 2)


def test_layouts_of_sizes_of_the_call() -> None:
    compiled = torch.compile(lambda x: x.contiguous(memory_format=torch.channels_last), backend="cuesta", dynamic=True)
    for sizes in ((2, 64, 40, 40), (3, 5, 200, 7), (2, 130, 9, 8)):
        x = torch.randn(sizes)
        assert_close(compiled(x), x.contiguous(memory_format=torch.channels_last), check_stride=True)
