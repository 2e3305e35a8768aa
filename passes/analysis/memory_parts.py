"""Tells whether views of one piece of memory have an element in common, such as the parts of a concatenation.

host.view(%0) {offset = 0}     4096x16 of rows of 360          columns 0 to 15
host.view(%0) {offset = 64}    4096x16 of rows of 360          columns 16 to 31: apart, though neither ends before
                                                               the other begins
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.dialects.types import byte_size, memref_shape, spelling_of
from cuesta.sizes import Number


@dataclass(frozen=True)
class _Part:
    """Where a view lies in its memory, in bytes: rows of `width` bytes, which begin at `begin`, `pitch` apart."""

    begin: int
    width: int
    pitch: int
    rows: int

    @property
    def end(self) -> int:
        return self.begin + (self.rows - 1) * self.pitch + self.width

    def meets(self, other: _Part) -> bool:
        """Whether the two may have a byte in common."""
        if self.end <= other.begin or other.end <= self.begin:
            return False
        a, b = (part.begin % part.pitch for part in (self, other))
        in_rows = self.pitch == other.pitch and a + self.width <= self.pitch and b + other.width <= other.pitch
        return not (in_rows and (a + self.width <= b or b + other.width <= a))


def _part(value: ir.Value, offset: Number) -> _Part | None:
    """Where a view at an offset lies; None where only the call tells."""
    shape = memref_shape(value.type)
    sizes, strides = ([n for n in numbers if isinstance(n, int) and n >= 0] for numbers in shape)
    if not isinstance(offset, int) or len(sizes) + len(strides) < 2 * len(shape[0]):
        return None
    size = byte_size(spelling_of(value))
    dims = sorted(((stride * size, n) for n, stride in zip(sizes, strides, strict=True) if n > 1), reverse=True)
    (pitch, rows), *inner = dims or [(size, 1)]
    return _Part(offset, size + sum(stride * (n - 1) for stride, n in inner), max(pitch, 1), rows)


@dataclass
class Parts:
    """Parts of memory."""

    #: Allocations, results of calls and arguments → their parts; None stands for all of it.
    found: dict[ir.Value, list[_Part | None]] = field(default_factory=dict)

    @staticmethod
    def of(values: Iterable[ir.Value]) -> Parts:
        parts = Parts()
        for value in values:
            base, offset = host.base_of(value)
            parts.found.setdefault(base, []).append(_part(value, offset))
        return parts

    def add(self, others: Parts) -> None:
        for base, parts in others.found.items():
            self.found.setdefault(base, []).extend(parts)

    def meet(self, others: Parts) -> bool:
        """Whether some of these may have an element in common with some of the others."""
        return any(
            one is None or other is None or one.meets(other)
            for base in self.found.keys() & others.found.keys()
            for one in self.found[base]
            for other in others.found[base]
        )
