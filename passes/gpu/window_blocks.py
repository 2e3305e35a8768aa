"""Chooses the block of a kernel that reads windows.

An element that a program loads serves all windows of the block that it is in, so more rows and columns of one thread
save loads, and take registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.kernel_fields import WINDOW_PARTS, WindowedDim, channels_of, windowed_dims
from cuesta.dialects.kernel_module import operand_classes
from cuesta.passes.form_kernels.fusion.limits import PROGRAMS
from cuesta.passes.gpu.block_sizes import Blocks, block_width
from cuesta.passes.gpu.kernel_space import Space
from cuesta.sizes.powers import power_at_least

#: The channels of a block, the first of these that covers few more than there are.
_WIDTHS = (64, 32, 16)
#: Columns of a block, the most rows, channels that a thread loads at once, the most multiplications in the code of a
#: kernel, and how long a load takes in multiplications.
_COLUMNS, _ROWS, _AT_ONCE, _MULTIPLICATIONS, _LOAD = 8, 7, 4, 400, 2
#: Neighbouring columns of a thread, which share most of what windows read, so that it loads half as many channels of
#: each. For four sums of 7x7 windows in each of seven rows it then loads and converts 306 numbers, not 560, with as
#: many registers.
_NEIGHBOURS = 2
#: Of a sum over all windows: threads of a program, channels that a thread loads at once, the most sums that it has for
#: each of these, the most loads in the code of a kernel, and how long a turn of its loops takes in multiplications.
_THREADS, _CHANNELS, _SUMS, _LOADS, _TURN = 128, 2, 32, 64, 20


def window_blocks(generic: ir.Operation, space: Space) -> Blocks:
    """The block of the kernel of a generic that reads windows."""
    dims = windowed_dims(generic)
    if WINDOW_PARTS.is_on(generic):
        return _of_weights(dims, space, channels_of(generic))
    (*_, channels), *_ = operand_classes(generic)  # of the weight
    return _of_sums(dims, space, channels)


def _of_sums(dims: Sequence[WindowedDim], space: Space, channels: int) -> Blocks:
    """The block of a sum over the places of windows: some columns and `channels`, side by side in memory, for the
    threads, and some rows, whose sums each thread holds. A thread's columns are not neighbours where the kernel also
    reads or writes images row by row. With a spread, a thread has as many rows and columns as lie between two elements
    of the images, or a multiple: which places of the windows have an element is then the same in all threads."""
    sizes, parallel = space.sizes, space.parallel
    down, across = dims
    height, width = (sizes[c] if c >= 0 else 1 for c in (down.place, across.place))
    blocks = [1] * len(sizes)
    blocks[channels] = block_width(sizes[channels], _WIDTHS)
    neighbours = across.spread if across.loop >= 0 else 1
    if across.loop >= 0:
        most = power_at_least(-(-sizes[across.loop] // neighbours))
        blocks[across.loop] = neighbours * min(max(_COLUMNS // neighbours, 1), most)
    if down.loop >= 0:
        most = max(min(_ROWS, _MULTIPLICATIONS // (height * width)), down.spread)
        programs = math.prod(-(-sizes[c] // blocks[c]) for c in parallel if c != down.loop)

        def cost(rows: int) -> float:
            turns = -(-sizes[down.loop] // rows)
            waves = max(turns * programs, PROGRAMS)
            loaded = len(down.readers(rows, range(height)))
            return waves * (_LOAD * loaded + rows * height / down.spread)

        blocks[down.loop] = min(range(down.spread, most + 1, down.spread), key=cost)
    threads = math.prod(blocks[c] for c in range(len(sizes)) if c != down.loop) // _AT_ONCE
    lie_alike = all(t[-1] == channels for t in (*space.tensors, *space.written) if len(t) > 1)
    if lie_alike and _share_columns(across, width) and across.loop >= 0 and blocks[across.loop] % _NEIGHBOURS == 0:
        neighbours = _NEIGHBOURS
    return Blocks(tuple(blocks), (), max(threads // 32, 1), neighbours=neighbours)


def _of_weights(dims: Sequence[WindowedDim], space: Space, channels: int) -> Blocks:
    """The block of a sum over all windows: some `channels` and columns for the threads. Each thread has all columns of
    a window. It has as many rows of a window, and as many rows of windows, as its registers hold and as make for the
    fewest loads."""
    sizes = space.sizes
    down, across = dims
    height, width = (sizes[c] if c >= 0 else 1 for c in (down.place, across.place))
    rows, columns = (sizes[c] if c >= 0 else 1 for c in (down.loop, across.loop))
    neighbours = _NEIGHBOURS if _share_columns(across, width) and columns % _NEIGHBOURS == 0 else 1
    reached = len(across.readers(neighbours, range(width)))
    heights = [n for n in range(1, height + 1) if n * width <= _SUMS] or [1]
    plans = [
        _Plan(n, k, rows, height, len(down.readers(n, range(k))), neighbours, width, reached)
        for n, k in itertools.product(_divisors(rows), heights)
    ]
    best = min(plans, key=lambda plan: (max(plan.loads, _LOADS), plan.cost))
    blocks = [1] * len(sizes)
    blocks[channels] = block_width(sizes[channels], _WIDTHS)
    for c, size in ((down.loop, best.rows), (down.place, best.places), (across.place, width)):
        if c >= 0:
            blocks[c] = size
    threads = _THREADS
    if across.loop >= 0:
        most = max(_THREADS * _CHANNELS // blocks[channels], 1)
        blocks[across.loop] = neighbours * min(most, power_at_least(columns // neighbours))
        threads = blocks[channels] * blocks[across.loop] // neighbours // _CHANNELS
    return Blocks(tuple(blocks), (), max(threads // 32, 1), neighbours=neighbours)


@dataclass(frozen=True)
class _Plan:
    """How many rows of windows, and how many rows of places, a thread takes at once."""

    rows: int
    places: int
    all_rows: int
    all_places: int
    #: how many rows of the images these reach
    lines: int
    neighbours: int
    width: int
    #: how many columns of the images a thread's windows reach
    columns: int

    @property
    def loads(self) -> int:
        return self.lines * self.columns + self.rows * self.neighbours

    @property
    def cost(self) -> float:
        """The time of all rows, in multiplications."""
        turns = self.all_rows // self.rows * -(-self.all_places // self.places)
        return turns * (_TURN + _LOAD * self.loads + self.rows * self.places * self.neighbours * self.width)


def _share_columns(across: WindowedDim, places: int) -> bool:
    """Whether windows side by side have columns in common."""
    return across.stride == abs(across.dilation) == across.spread == 1 < places


def _divisors(n: int) -> Iterable[int]:
    return (d for d in range(1, n + 1) if n % d == 0)
