"""Quotients of narrow floats, rounded to whole numbers, are eager's bit for bit: ATen rounds each step on the way."""

from __future__ import annotations

import pytest
import torch

MODES = ("floor", "trunc")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_every_number(dtype: torch.dtype, backend: str) -> None:
    """All numbers of a dtype up to 4096, among them zeros and subnormals, by divisors whose quotients round up."""
    every = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)
    x = every[every.abs() <= 4096]
    divisors = torch.tensor([0.1, -0.3, 1 / 3, 1, 2.5, -3, 7, 0.001]).to(dtype)
    one = torch.tensor([0.3], dtype=dtype)

    def quotients(x: torch.Tensor, divisors: torch.Tensor, one: torch.Tensor) -> list[torch.Tensor]:
        # A divisor of one element, and a number, are divided by in f32.
        pairs = [(x[:, None], divisors), (x, one), (x, 0.3), (x, 1000.0)]
        return [torch.div(a, b, rounding_mode=mode) for a, b in pairs for mode in MODES]

    actual = torch.compile(quotients, backend=backend, fullgraph=True)(x, divisors, one)
    for got, expected in zip(actual, quotients(x, divisors, one), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert torch.equal(got.signbit(), expected.signbit())
    steps = (x[:, None] / divisors).trunc()
    assert not torch.equal(steps, (x[:, None].float() / divisors.float()).trunc().to(dtype))  # the cases are there
    torch.testing.assert_close(actual[1], steps, rtol=0, atol=0)
