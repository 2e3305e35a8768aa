"""Reads from Triton's IR with layouts (ttgir) how much of a tensor each thread holds.

#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [16, 1], order = [1, 0]}>
tensor<1024x8xf32, #blocked>      16 elements: 1024 rows over 32 * 16 threads, times 8 columns
tensor<16x512xf32, #blocked>      512 elements, the same ones in 32 threads, as there are fewer rows than threads
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_LAYOUT = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[(.*?)\], threadsPerWarp = \[(.*?)\], warpsPerCTA = \[(.*?)\]",
    re.MULTILINE,
)
_TENSOR = re.compile(r"tensor<((?:\d+x)+)[^,<>]*(?:<[^<>]*>)?, (#\w+)>")


def most_held(text: str) -> int:
    """The most elements of one tensor of a blocked layout that a thread holds, by the text of a module."""
    layouts = {name: [_ints(part) for part in parts] for name, *parts in _LAYOUT.findall(text)}
    tensors = {(shape, name) for shape, name in _TENSOR.findall(text) if name in layouts}
    return max((_held(_ints(shape), *layouts[name]) for shape, name in tensors), default=0)


def _held(shape: Sequence[int], per_thread: Sequence[int], threads: Sequence[int], warps: Sequence[int]) -> int:
    spans = zip(shape, per_thread, threads, warps, strict=True)
    return math.prod(min(own, size) * -(-size // (own * lanes * rows)) for size, own, lanes, rows in spans)


def _ints(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
