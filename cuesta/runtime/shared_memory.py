"""Which of a call's tensors share memory, where one of them is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors

Tensor = torch.Tensor


def pairs_written(tensors: Mapping[int, Tensor], written: Collection[int]) -> Iterator[tuple[int, int]]:
    """The numbers of two strided tensors with a place in common, of which at least one is in `written`; the lower
    number first."""
    ranges = sorted((*_range(tensor), i) for i, tensor in tensors.items())
    before: list[tuple[int, int]] = []
    for start, end, i in ranges:
        before = [(reached, other) for reached, other in before if reached > start]
        for _, other in before:
            is_written = i in written or other in written
            if is_written and compute_overlapping_tensors([tensors[i], tensors[other]], symbolic=False):
                yield min(i, other), max(i, other)
        if end > start:
            before.append((end, i))


def _range(tensor: Tensor) -> tuple[int, int]:
    """The address of a tensor's first byte, and the one behind its last; nothing lies between them where it has no
    elements, or no memory."""
    start = tensor.data_ptr()
    if not start or not tensor.numel():
        return start, start
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.itemsize
