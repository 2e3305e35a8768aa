"""Decomposes torch._trilinear, which computes nn.Bilinear and its gradients, into two products."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.symbolic_shapes import guard_or_false, guard_or_true

aten = torch.ops.aten


def _stretched(x: Tensor, dims: Collection[int]) -> Tensor:
    for dim in sorted(dims):
        x = x.unsqueeze(dim)
    return x


def trilinear(x: Tensor, y: Tensor, z: Tensor, *lists: Any) -> Tensor:
    """The sum of x * y * z. The first three of `lists` are the dims that x, y and z lack, the fourth the dims to sum
    over."""
    *without, summed = lists[:4]
    operands = [(operand, set(dims)) for operand, dims in zip((x, y, z), without, strict=True)]
    # A summed dim that one operand lacks can be summed in the product of the other two. The operand that lacks most of
    # the summed dims comes last, so that the first product sums most of them.
    last = max(range(3), key=lambda i: len(operands[i][1] & set(summed)))
    (u, without_u), (v, without_v) = (operands[i] for i in range(3) if i != last)
    w, without_w = operands[last]
    first = sorted(without_w & set(summed))
    product = _sum_of_products(_stretched(u, without_u), _stretched(v, without_v), first)
    total = _sum_of_products(product, _stretched(w, without_w), sorted(set(summed) - set(first)))
    return total.squeeze(sorted(summed))


def _sum_of_products(x: Tensor, y: Tensor, summed: Sequence[int]) -> Tensor:
    """The sum over `summed` of x * y, whose dims broadcast; summed dims are kept with size 1."""
    if not summed:
        return x * y
    if any(_stretches(u, v) for u, v in ((x, y), (y, x))):
        # One operand has the full shape: each of its elements is read for one product only.
        return (x * y).sum(list(summed), keepdim=True)
    every = range(x.dim())
    total = torch.einsum(x, list(every), y, list(every), [d for d in every if d not in summed])
    for dim in summed:
        total = total.unsqueeze(dim)
    return total


def _stretches(x: Tensor, y: Tensor) -> bool:
    """Whether y has the shape of x * y, so that at most x is broadcast."""
    return all(guard_or_true(m != 1) or guard_or_false(n == 1) for n, m in zip(x.shape, y.shape, strict=True))


DECOMPOSITIONS: dict[Any, Any] = {aten._trilinear.default: trilinear}
