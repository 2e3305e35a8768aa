"""Names the attributes of kernels and of the ops in them, as fields.

    func.func @gelu(…) attributes {cuesta.sizes = [256, 768], cuesta.parallel = [0, 1], cuesta.blocks = [1, 1024], …}

A *class* is a loop of the kernel; its number is its position in `SIZES`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from cuesta._mlir import ir
from cuesta.dialects.fields import Int, Ints, Marker, NumberRows, Numbers, Numeral, Raw

#: Of a generic or a scatter: the class of each of its loops.
CLASSES = Ints("cuesta.classes")
#: Of a generic: it runs once, after all tiles.
AFTER_TILES = Marker("cuesta.tail")

#: Of a select in a generic: what reads it computes the same from the first of the two values alone.
IMPLIED = Marker("cuesta.implied")

#: Of a generic whose result is written row-major, whatever the memory order of what it reads.
ROW_MAJOR = Marker("cuesta.row_major")

#: Of a generic that sums products of the windows of a tensor: the numbers of a `WindowedDim` for each dim of a window.
WINDOWS = Ints("cuesta.windows")
#: Of a generic that sums over the windows themselves, for the gradient of their weights: the numbers of `WindowParts`.
WINDOW_PARTS = Ints("cuesta.window_parts")

#: Of an argument with symbolic sizes or strides: both, in terms of the kernel's own parameters p0, p1, …, which are the
#: arguments after the tensors.
SHAPE = NumberRows("cuesta.bound")
#: Of an argument, for upstream's bufferisation: the layout of its buffer, and whether the kernel writes to it.
BUFFER_LAYOUT, WRITABLE = Raw("bufferization.buffer_layout"), Raw("bufferization.writable")

#: The extent of each class.
SIZES = Numbers("cuesta.sizes")
#: The classes whose iterations may run in any order.
PARALLEL = Ints("cuesta.parallel")

#: For a CPU: the tile's size along each parallel class, in order.
TILE = Ints("cuesta.tile")
#: For a CPU: the number of tiles.
TILES = Numeral("cuesta.tiles")
#: Of a loop over tiles, if the loop's bounds do not tell: the number of tiles along each dim.
TILES_ALONG = Numbers("cuesta.tiles")
#: For a CPU, of a kernel or of its loop over tiles: the scalar operations of all tiles.
WORK = Numeral("cuesta.work")

#: For a GPU: the block's size along each class.
BLOCKS = Ints("cuesta.blocks")
#: For a GPU: the classes along which a program takes one block after the other.
LOOPS = Ints("cuesta.loops")
#: For a GPU: the classes of few elements, of which a program takes one after the other without a loop.
SINGLES = Ints("cuesta.singles")
#: For a GPU, of a kernel that sums over windows: how many neighbouring columns are one thread's.
NEIGHBOURS = Int("cuesta.neighbours")
#: For a GPU: the loops over `LOOPS` are left out if the sizes fit the block.
FITS = Marker("cuesta.fits")
#: For a GPU: the number of blocks along each parallel class, 0 if only a launch determines it.
COUNTS = Ints("cuesta.counts")
#: For a GPU: the number of programs along x, y and z.
GRID = Numbers("cuesta.grid")
#: For a GPU: warps of a program, and the stages in which a product's loop is pipelined.
WARPS, STAGES = Int("cuesta.warps"), Int("cuesta.stages")
#: For a GPU: for each tensor, the bytes to which its address is aligned in every launch.
ALIGN = Ints("cuesta.align")
#: For a GPU: for each parameter, what divides it in every launch.
MULTIPLES = Ints("cuesta.multiples")
#: For a GPU, of a kernel that reads at computed positions: the classes that these depend on, which fill a program's
#: threads; each thread has two elements side by side, of as many rows along the other classes as the block has.
LOOKED_UP = Ints("cuesta.looked_up")
#: Of a read in a generic: neighbours along the last axis of a block are not known to be neighbours in memory.
APART = Marker("cuesta.apart")
#: For a GPU: positions need 64 bits.
WIDE = Marker("cuesta.wide")


class WindowedDim(NamedTuple):
    """A dim of a tensor, of `size` elements, along which a generic reads windows: at (`loop` · stride + `place` ·
    dilation − padding) / spread, if that is a whole number. Loops, or in a kernel their classes, are -1 where they have
    one iteration."""

    loop: int
    place: int
    stride: int
    dilation: int
    padding: int
    spread: int
    size: int

    def readers(self, windows: int, places: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
        """What lies so far from where the first of neighbouring `windows` begins, without its padding → the windows
        that have it at one of `places`, by number, and that place in each. The first window is at a multiple of the
        spread."""
        found: dict[int, list[tuple[int, int]]] = {}
        for number, place in itertools.product(range(windows), places):
            offset, rest = divmod(number * self.stride + place * self.dilation - self.padding, self.spread)
            if rest == 0:
                found.setdefault(offset, []).append((number, place))
        return found


class WindowParts(NamedTuple):
    """The loops, or in a kernel their classes, of a generic that sums the products of all windows and a gradient, in
    parts: over groups of samples, the samples of a group, and groups of rows. The loop over a group's rows is that of
    the first `WindowedDim`. They are -1 where they have one iteration."""

    sample_groups: int
    samples: int
    row_groups: int


def window_parts(generic: ir.Operation) -> WindowParts | None:
    """The parts of a generic that sums over all windows; None for another generic."""
    numbers = WINDOW_PARTS.find(generic)
    return None if numbers is None else WindowParts(*numbers)


def windowed_dims(generic: ir.Operation) -> list[WindowedDim]:
    """The dims along which a generic reads windows; none for another generic."""
    numbers, width = WINDOWS.find(generic) or [], len(WindowedDim._fields)
    return [WindowedDim(*numbers[i : i + width]) for i in range(0, len(numbers), width)]


def channels_of(generic: ir.Operation) -> int:
    """The class of the channels of a generic that sums over all windows, in a kernel."""
    parts = window_parts(generic)
    assert parts is not None
    others = {*parts, *(c for dim in windowed_dims(generic) for c in (dim.loop, dim.place))}
    (channels,) = set(CLASSES.of(generic)) - others
    return channels


def put_windowed_dims(generic: ir.Operation, dims: list[WindowedDim]) -> None:
    WINDOWS.put(generic, [number for dim in dims for number in dim])
