"""Describes where the elements of a tensor lie: strides over a buffer, and how views change the strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuesta.passes.analysis.runs import runs
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number, hint

#: Bytes: of a GPU's asynchronous loads, and of a cache line.
_ALIGNED, _LINE = 16, 128
#: The most elements that ATen's kernels load at once.
_LOADED = 16
#: The dims of images [N, C, H, W] in memory order, where they are in channels_last, and the inverse permutation.
CHANNELS_LAST, FROM_CHANNELS_LAST = [0, 2, 3, 1], [0, 3, 1, 2]


@dataclass(frozen=True)
class Layout:
    """A strided view of buffer `base` (a number that the host function gives it).

    `offset` and `strides` are in elements of the buffer's type.
    """

    base: int
    offset: Number
    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]

    def permute(self, dims: Sequence[int]) -> Layout:
        return replace(self, sizes=tuple(self.sizes[d] for d in dims), strides=tuple(self.strides[d] for d in dims))

    def expand(self, sizes: Sequence[Number]) -> Layout:
        """Broadcast dims get stride 0."""
        lead = len(sizes) - len(self.sizes)
        strides = [0] * lead + [
            0 if old == 1 and new != 1 else stride
            for old, new, stride in zip(self.sizes, sizes[lead:], self.strides, strict=True)
        ]
        return replace(self, sizes=tuple(sizes), strides=tuple(strides))

    def slice(self, starts: Sequence[Number], steps: Sequence[Number], sizes: Sequence[Number]) -> Layout:
        offset = self.offset + sum(b * s for b, s in zip(starts, self.strides, strict=True))
        strides = tuple(s * step for s, step in zip(self.strides, steps, strict=True))
        return replace(self, offset=offset, sizes=tuple(sizes), strides=strides)

    def once(self, strides: Sequence[Number]) -> Layout:
        """The layout with size 1 along the dims where `strides` is 0, as a broadcast repeats one element there."""
        return replace(self, sizes=tuple(1 if s == 0 else n for n, s in zip(self.sizes, strides, strict=True)))

    def unfold(self, dim: int, step: int, sizes: Sequence[Number]) -> Layout:
        """Windows along `dim`, `step` apart. The elements of a window are the last of the dims of `sizes`."""
        strides = [stride * step if d == dim else stride for d, stride in enumerate(self.strides)]
        return replace(self, sizes=tuple(sizes), strides=(*strides, self.strides[dim]))

    def reshape(self, sizes: Sequence[Number]) -> Layout | None:
        """The same elements in row-major order under other sizes; None where no strides express that."""
        strides = view_strides(self.sizes, self.strides, sizes)
        return None if strides is None else replace(self, sizes=tuple(sizes), strides=strides)

    def as_real(self) -> Layout:
        """The parts of complex numbers, in a last dim of 2."""
        return Layout(self.base, self.offset * 2, (*self.sizes, 2), (*(s * 2 for s in self.strides), 1))

    def as_complex(self) -> Layout | None:
        """The complex numbers whose parts the last dim holds; None where the parts are not adjacent aligned pairs."""
        if self.strides[-1] != 1 or any(n % 2 != 0 for n in (self.offset, *self.strides[:-1])):
            return None
        strides = tuple(s // 2 for s in self.strides[:-1])
        return Layout(self.base, self.offset // 2, self.sizes[:-1], strides)


def view_strides(
    old_sizes: Sequence[Number], old_strides: Sequence[Number], new_sizes: Sequence[Number]
) -> tuple[Number, ...] | None:
    """Strides of a reshape without a copy, or None. Runs of dims that are contiguous with one another
    split and merge freely; a new dim must not reach across two runs."""
    if 0 in old_sizes:  # there is nothing to copy
        return dense_strides([1 if n == 0 else n for n in new_sizes], range(len(new_sizes)))
    if tuple(old_strides) == dense_strides(old_sizes, range(len(old_sizes))):
        return dense_strides(new_sizes, range(len(new_sizes)))  # needs no facts about symbolic sizes
    runs: list[list[Number]] = []  # [elements, stride of the innermost]
    for size, stride in zip(old_sizes, old_strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    strides: list[Number] = [1] * len(new_sizes)
    left: Number = 1
    run = len(runs)
    for d in range(len(new_sizes) - 1, -1, -1):
        if new_sizes[d] == 1:
            continue
        if left == 1:
            run -= 1
            if run < 0:
                return None
            left, stride = runs[run]
        if left % new_sizes[d] != 0:
            return None
        strides[d] = stride
        stride *= new_sizes[d]
        left //= new_sizes[d]
    if left != 1 or run > 0:
        return None
    for d in range(len(new_sizes) - 1, -1, -1):
        if new_sizes[d] == 1:  # as in torch: the stride of a dim of size 1 is the extent of the next dim
            strides[d] = strides[d + 1] * new_sizes[d + 1] if d + 1 < len(new_sizes) else 1
    return tuple(strides)


def copied_order(sizes: Sequence[Number], strides: Sequence[Number], new_sizes: Sequence[Number]) -> list[int]:
    """The dims from the slowest to the fastest in a dense copy that can be reshaped to `new_sizes`: as they are in
    memory, but dims that merge stay side by side, so that images keep their channels last."""
    found = runs(sizes, new_sizes)
    if found is None:
        return list(range(len(sizes)))

    def fastest(run: range) -> float:
        return min((hint(strides[d]) for d in run if sizes[d] != 1 and strides[d] != 0), default=math.inf)

    return [d for run in sorted((before for before, _ in found), key=lambda run: -fastest(run)) for d in run]


def memory_order(sizes: Sequence[Number], strides: Sequence[Number]) -> list[int]:
    """The dims from the slowest to the fastest in memory; equal strides keep their order."""
    return sorted(range(len(sizes)), key=lambda d: -hint(strides[d]))


def dense_strides(sizes: Sequence[Number], order: Sequence[int]) -> tuple[Number, ...]:
    """Strides without gaps whose memory order is `order`."""
    strides: list[Number] = [1] * len(sizes)
    step: Number = 1
    for d in reversed(order):
        strides[d] = step
        step *= sizes[d]
    return tuple(strides)


def is_dense(sizes: Sequence[Number], strides: Sequence[Number]) -> bool:
    """Whether the strides have no gaps and no overlaps in some order of the dims."""
    order = memory_order(sizes, strides)
    kept = [d for d in order if sizes[d] != 1]
    expected = dense_strides([sizes[d] for d in kept], range(len(kept)))
    return all(strides[d] == e for d, e in zip(kept, expected, strict=True))


def strides_for_call(layout: Layout, traced: Sequence[Number], aligned: bool) -> tuple[Number, ...] | None:
    """The strides of the copy that a call needs which was traced with the strides `traced`; None if none is needed.

    Dense traced strides have to be met exactly. Traced strides with gaps (part of a larger tensor) or with a broadcast
    dim (stride 0) matter only to a call that wants its operands `aligned`: see `_is_aligned`.
    """
    sizes = layout.sizes
    if same_places(sizes, layout.strides, traced):
        return None
    if is_dense(sizes, traced):
        return tuple(traced)
    if not aligned or _is_aligned(sizes, layout.strides, traced):
        return None
    once = [1 if t == 0 else n for n, t in zip(sizes, traced, strict=True)]
    packed = dense_strides(once, memory_order(sizes, traced))
    strides = tuple(0 if t == 0 else s for s, t in zip(packed, traced, strict=True))
    return strides if _is_aligned(sizes, strides, traced) else tuple(traced)


def _is_aligned(sizes: Sequence[Number], strides: Sequence[Number], traced: Sequence[Number]) -> bool:
    """Whether strides are as aligned as a call's traced ones: 1 where these are 1, else a multiple of their greatest
    common divisor with 16, the most elements that kernels load at once. Symbolic strides count as aligned."""
    for n, stride, t in zip(sizes, strides, traced, strict=True):
        if n == 1 or (t != 1 and not (isinstance(stride, int) and isinstance(t, int))):
            continue
        if stride != 1 if t == 1 else stride % math.gcd(t, _LOADED):
            return False
    return True


def overlaps(sizes: Sequence[Number], strides: Sequence[Number]) -> bool:
    """Whether two elements may share an address. Strides that are symbolic and not dense count as overlapping."""
    if is_dense(sizes, strides):
        return False
    reach = 0
    for d in reversed(memory_order(sizes, strides)):
        size, stride = sizes[d], strides[d]
        if size == 1:
            continue
        if not isinstance(size, int) or not isinstance(stride, int) or stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def aligned_strides(sizes: Sequence[Number], width: int) -> list[int] | None:
    """Row-major strides, for elements of `width` bytes, that pad every row to a multiple of a cache line, or a shorter
    one to a power of two, so that none crosses a line's end; None where rows begin at multiples of 16 bytes without
    padding, or a size is symbolic."""
    fixed = [n for n in sizes if isinstance(n, int)]
    if len(fixed) < max(len(sizes), 2) or fixed[-1] * width % _ALIGNED == 0:
        return None
    used = fixed[-1] * width
    row = max(_ALIGNED, 1 << (used - 1).bit_length()) if used < _LINE else math.ceil(used / _LINE) * _LINE
    row //= width
    return [*(math.prod(fixed[d + 1 : -1]) * row for d in range(len(fixed) - 1)), 1]
