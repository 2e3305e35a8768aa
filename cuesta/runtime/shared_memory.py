"""Which of a call's tensors share memory, where one of them is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors

from cuesta.runtime.arguments import extent

Tensor = torch.Tensor


def pairs_written(tensors: Mapping[int, Tensor], written: Collection[int]) -> Iterator[tuple[int, int]]:
    """Pairs of keys of strided tensors that have a byte in common, the lower key first. `written` holds the keys of the
    tensors that the call writes; a pair has at least one of them."""
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
    """The address of a tensor's first byte, and the one behind its last byte. Both are the same for a tensor without
    elements or without memory."""
    start = tensor.data_ptr()
    if not start or not tensor.numel():
        return start, start
    return start, start + extent(tensor) * tensor.itemsize
