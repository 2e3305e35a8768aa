"""Decides whether the tiles of a kernel lie well in memory: whether each has enough of a tensor's rows side by side,
and how many tiles are left where neighbours run together for that."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.limits import FEW_IN_A_ROW
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Loop, Space, class_sizes

#: The nodes of a kernel, their space, and the classes that tiles run over.
Tiling: TypeAlias = "tuple[Sequence[Node], Space, Collection[Loop]]"

#: Bytes of a large tensor.
_LARGE = 4096
#: A tensor of so many times another's bytes takes a kernel's time. What is summed of a norm's groups of channels in
#: parts lies as the image does, and is read by the kernel that adds up the parts; its tiles are no good for the image.
_MUCH_LARGER = 4


def rows_refusal(memory: MemoryOrder, kernel: Tiling, before: Sequence[Tiling], gpu: bool) -> str | None:
    """Why the tiles of a kernel lie worse than those of the kernels that it is merged from; None if they do not."""
    if _columns(memory, kernel) and not any(_columns(memory, own) for own in before):
        return "the tiles of one kernel would be walked column by column"
    if gpu and _fragments(memory, kernel) > _MUCH_LARGER * max(_fragments(memory, own) for own in before):
        return "the tiles of one kernel would have a few elements of each row"
    return None


def count_tiles(memory: MemoryOrder, kernel: Tiling, strip: int, asked: Mapping[ir.Value, Sequence[int]]) -> int:
    """The number of parallel tiles. If tiles cut the contiguous dim of a large operand but leave another of its dims
    whole, neighbouring tiles run together, and each such `strip` counts once. So does one of a large result that is
    `asked` for in such an order."""
    nodes, space, parallel = kernel
    sizes = class_sizes(space, nodes)
    tiles = math.prod(sizes[root] for root in parallel)
    if strip == 1:
        return tiles
    reads = [(node, read) for node in nodes for read in node.reads if len(read.dims) > 1]
    if not reads:
        return tiles
    largest = max(read.bytes for _, read in reads)
    large = [(node, read) for node, read in reads if 4 * read.bytes >= largest]
    node, read = next((pair for pair in large if memory.knows(pair[1].value)), large[0])
    walks = [[space.classes[node.index][read.dims[d]] for d in _long(read.value, memory.order(read.value))]]
    for node in nodes if asked else ():
        for value, count, dims in zip(node.results, node.result_bytes, node.writes, strict=True):
            if 4 * count >= largest and value in asked:
                walks.append([space.classes[node.index][dims[d]] for d in _long(value, asked[value])])
    counts = [tiles]
    for walked in walks:
        if walked and _is_cut_across(walked, parallel):
            counts.append(max(tiles // min(strip, sizes[walked[-1]]), 1))
    return min(counts)


def _long(value: ir.Value, order: Sequence[int]) -> list[int]:
    """The dims of `order` that have more than one element."""
    shape = shape_of(value)
    return [d for d in order if shape[d] != 1]


def _columns(memory: MemoryOrder, kernel: Tiling) -> bool:
    """Whether tiles cut the contiguous dim of a large tensor and leave another dim whole."""
    _, _, parallel = kernel
    return any(_is_cut_across(walked, parallel) for walked, _ in _walked(memory, kernel))


def _is_cut_across(walked: Sequence[Loop], parallel: Collection[Loop]) -> bool:
    """Whether tiles along the classes `parallel` cut the last of a tensor's classes, its contiguous dim, and leave
    another whole."""
    return walked[-1] in parallel and not all(root in parallel for root in walked)


def _fragments(memory: MemoryOrder, kernel: Tiling) -> int:
    """Bytes of the largest tensor whose rows tiles cut into a few elements each, where they have many such rows, as of
    an image's groups of channels, which lie side by side in each pixel; 0 if there is none."""
    nodes, space, parallel = kernel
    sizes, most = class_sizes(space, nodes), 0
    for walked, count in _walked(memory, kernel):
        whole = [root for root in walked if root not in parallel]
        is_cut = walked[-1] not in parallel and walked[-2] in parallel
        if is_cut and len(whole) > 1 and sizes[walked[-1]] < FEW_IN_A_ROW:
            most = max(most, count)
    return most


def _walked(memory: MemoryOrder, kernel: Tiling) -> Iterator[tuple[list[Loop], int]]:
    """The classes of each large tensor that is read, from the slowest to the fastest, and the tensor's bytes."""
    nodes, space, _ = kernel
    for node in nodes:
        for read in node.reads:
            if len(read.dims) > 1 and read.bytes >= _LARGE:
                yield [space.classes[node.index][read.dims[d]] for d in memory.order(read.value)], read.bytes
