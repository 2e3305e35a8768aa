"""Chains of writes to parts of a tensor, which read what earlier ones wrote."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor


def a_slice(generator: random.Random, size: int) -> slice:
    start = generator.randrange(size)
    return slice(start, generator.randint(start + 1, size))


@pytest.mark.parametrize("seed", range(12))
def test_each_write_is_seen_by_the_next(seed: int) -> None:
    generator = random.Random(seed)
    steps = [
        (generator.choice(["write", "scale", "turn", "part"]), [a_slice(generator, n) for n in (6, 8, 10)])
        for _ in range(generator.randint(2, 6))
    ]

    def function(x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for kind, places in steps:
            if kind == "turn":  # two views in a row: the next write is to a part of a permuted, parted tensor
                total = total.permute(0, 2, 1).reshape(6, 10, 4, 2).reshape(6, 80).reshape(6, 10, 8).permute(0, 2, 1)
                continue
            total = total.clone()
            if kind == "scale":
                total[tuple(places)] *= 2
            elif kind == "part":
                total[:, places[1]] = y[:, places[1]] + total[:, places[1]]
            else:
                total[tuple(places)] = x[tuple(places)] - total[tuple(places)]
        return total

    torch.manual_seed(seed)
    x, y = torch.randn(6, 8, 10), torch.randn(6, 8, 10)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"cache": False})
    assert torch.equal(compiled(x, y), function(x, y))


def test_rows_that_each_read_the_rows_before() -> None:
    """Forward substitution, as in linear attention in chunks. In its gradient each step slices the slices of the step
    before."""

    def function(x: Tensor) -> Tensor:
        total = x.tril(-1)
        for i in range(1, x.shape[-1]):
            row, before = total[..., i, :i].clone(), total[..., :i, :i].clone()
            total[..., i, :i] = row + (row[..., None] * before).sum(-2)
        return total

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"cache": False})
    x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(1)) / 4
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    for own, called in ((ours, compiled), (theirs, function)):
        called(own).square().sum().backward()
    torch.testing.assert_close(compiled(x), function(x))
    torch.testing.assert_close(ours.grad, theirs.grad)
