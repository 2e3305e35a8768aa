"""Finds pairs of a call's tensors that share memory and of which at least one is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import torch

from cuesta.runtime.arguments import extent
from cuesta.torch_private.tensors import overlap

Tensor = torch.Tensor


def pairs_written(tensors: Mapping[int, Tensor], written: Collection[int]) -> Iterator[tuple[int, int]]:
    """Pairs of keys of strided tensors that share at least one byte, the lower key first. `written` holds the keys of
    the tensors that the call writes; each pair has at least one of these keys."""
    ranges = sorted((*_range(tensor), i) for i, tensor in tensors.items())
    before: list[tuple[int, int]] = []
    for start, end, i in ranges:
        before = [(reached, other) for reached, other in before if reached > start]
        for _, other in before:
            is_written = i in written or other in written
            if is_written and overlap(tensors[i], tensors[other]):
                yield min(i, other), max(i, other)
        if end > start:
            before.append((end, i))


def _range(tensor: Tensor) -> tuple[int, int]:
    """The address of a tensor's first byte, and the address after its last byte. They are equal for a tensor without
    elements or without memory."""
    start = tensor.data_ptr()
    if not start or not tensor.numel():
        return start, start
    return start, start + extent(tensor) * tensor.itemsize
