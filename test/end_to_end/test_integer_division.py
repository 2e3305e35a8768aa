"""Integers divided by tensors: eager's results to the last bit, and its error where a divisor is 0."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta


def divided(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")


def edges(dtype: torch.dtype) -> Tensor:
    """Numbers around the powers of two of a type, and random ones of all lengths."""
    info = torch.iinfo(dtype)
    bits = info.bits - (info.min < 0)
    powers = torch.tensor([1 << k for k in range(bits)] + [info.max])
    near = torch.cat([powers - 1, powers, powers + 1])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(info.min, info.max, (200,), generator=generator)
    lengths = torch.randint(0, bits, (200,), generator=generator)
    found = torch.cat([near, -near, drawn >> lengths, torch.tensor([info.min])])
    return found[(found >= info.min) & (found <= info.max)].to(dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_quotients_and_remainders(dtype: torch.dtype, backend: str) -> None:
    x, y = (v.reshape(-1) for v in torch.meshgrid(edges(dtype), edges(dtype), indexing="ij"))
    x, y = x[y != 0], y[y != 0]
    traps = (x == torch.iinfo(dtype).min) & (y == -1)  # eager's process ends there
    compiled = torch.compile(divided, backend=backend, fullgraph=True)
    for got, expected in zip(compiled(x[~traps], y[~traps]), divided(x[~traps], y[~traps]), strict=True):
        assert torch.equal(got, expected)
    assert not cuesta.report().graphs[-1].aten_calls


def test_the_lowest_number_by_minus_one(backend: str) -> None:
    lowest, minus_one = torch.tensor([torch.iinfo(torch.int64).min] * 9), torch.tensor([-1] * 9)
    floor, rest, truncated_rest, truncated = torch.compile(divided, backend=backend)(lowest, minus_one)
    assert torch.equal(floor, lowest)
    assert torch.equal(truncated, lowest)
    assert not rest.any()
    assert not truncated_rest.any()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_a_divisor_of_zero_raises_and_the_process_lives(dtype: torch.dtype, backend: str) -> None:
    compiled = torch.compile(divided, backend=backend)
    x, y = torch.arange(1, 40).to(dtype), torch.arange(1, 40).to(dtype)
    y[20] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, y)
    assert compiled(x, x)[0].sum() == 39
