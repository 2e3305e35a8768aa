"""Computes the block of a GPU kernel from the kernel's sizes, as numbers, and its tensors' memory order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.kernel_fields import WindowedDim
from cuesta.dialects.product import FACTOR, roles_of, tile_of
from cuesta.passes.form_kernels.fusion.limits import PROGRAMS, SECTOR, STRIP
from cuesta.sizes.powers import power_at_least, power_at_most

#: Elements of a block of a kernel that has parallel classes only: eight for each of 128 threads.
BLOCK = 1024
#: Most elements that a program holds at once if it needs a class whole.
WHOLE = 16384
#: Most elements that a loop takes at a time.
AT_A_TIME = 4096
#: Elements of the rows that a loop takes at a time where they are reduced both along and down. An iteration waits for
#: its loads, so short rows are taken together: one of 24 elements at a time took 126 µs for 40 MB on an H100. With two
#: rows of 768, ViT-B's took 87 µs instead of 73.
WALKED = 1024
#: Width, along each of two classes, of a block that is transposed.
SQUARE = 32
#: Least elements of a block if sizes differ from call to call.
FEW = 256
#: Most elements per thread; a program with more work gets more threads.
PER_THREAD = 8
#: Bytes that a program reads, and a thread, where a kernel only reduces rows of at least `MANY` elements in all, as a
#: product by a vector does: more loads in flight, and fewer threads that wait for one another. A loop down columns
#: gives a thread as many bytes in each turn.
BYTES_AT_ONCE, BYTES_PER_THREAD, MANY = 8192, 64, 1 << 20
#: The same where elements have one byte, or half of one: such a kernel is bound by arithmetic, and more rows then share
#: what a thread does with the vector. A step of a Llama with int8 took 0.81 ms on an H100 with 8192 bytes a program,
#: 0.69 with 16384, 0.72 with 32768; with int4 1.25, 1.09 and 1.11.
UNPACKED_AT_ONCE, BYTES_UNPACKED = 16384, 128
#: The least rows of a program where two values are in a byte: it reads four bytes of the vector for each byte of a row.
#: With K = 8192 a product of 2048 rows took 10.8 µs on an H200 with four rows, 6.3 with eight.
LEAST_ROWS = 8
_NONE: Mapping[int, int] = {}
#: Of a sum over windows: columns of a block, the most rows, channels that a thread loads at once, the most
#: multiplications in the code of a kernel, how long a load takes in multiplications, and by how much the blocks'
#: channels may exceed those that there are.
_COLUMNS, _ROWS, _AT_ONCE, _MULTIPLICATIONS, _LOAD, _SPARE = 8, 7, 4, 400, 2, 1.15
#: Most sums of matrix products per warp: 128 registers of each thread.
SUMS = 4096


@dataclass(frozen=True)
class Blocks:
    """The block of a kernel: a size for each class, the classes that a loop walks, the number of 32-thread warps."""

    sizes: tuple[int, ...]
    loops: tuple[int, ...]
    warps: int
    #: for the loop over a matrix product's K: how many of its loads are in flight at once
    stages: int = 1


def choose(
    sizes: Sequence[int],
    parallel: set[int],
    tensors: Sequence[Sequence[int]],
    spaces: Sequence[Sequence[int]],
    least: Mapping[int, int] = _NONE,
    written: Sequence[Sequence[int]] = (),
    width: int = 4,
    beside: int = 0,
    walked: Mapping[int, int] = _NONE,
) -> Blocks:
    """The block of a kernel. `tensors` lists the classes of each tensor's dims in memory order. `spaces` lists the
    classes that each generic walks; the largest product over one generic is what a program holds at once. `least` maps
    classes whose size differs from call to call to the least size that their blocks must cover. `written` lists the
    classes of each tensor that the kernel writes, `width` is the size of an element of the largest tensor in bytes,
    `beside` the elements of what is launched together with it, whose programs keep the GPU busy too. `walked` has the
    classes that a loop walks, and the most elements that a turn takes."""
    fastest = fastest_classes(sizes, tensors)
    blocks = dict.fromkeys(range(len(sizes)), 1)
    covers = [power_at_least(max(n, least.get(c, 1))) for c, n in enumerate(sizes)]

    def at_once(of: int | None = None) -> int:
        """Most elements that one generic holds at once, of those that walk class `of` if it is given."""
        walked = [space for space in spaces if of is None or of in space]
        return max((math.prod(blocks[c] for c in space) for space in walked), default=1)

    whole = [c for c in range(len(sizes)) if c not in parallel]
    for c in whole:
        blocks[c] = covers[c]
    for c in sorted(fastest & parallel):
        columns = _strip(sizes, parallel) if whole else SQUARE if len(fastest & parallel) > 1 else 1
        blocks[c] = min(columns, covers[c])
    blocks.update(dict.fromkeys(walked, 1))
    for c, most in walked.items():
        blocks[c] = min(power_at_most(most // at_once()), covers[c])
    loops = list(walked)
    while at_once() > (AT_A_TIME if set(loops) - set(walked) else WHOLE) and len(loops) < len(whole):
        loops.append(max((c for c in whole if c not in loops), key=lambda c: (blocks[c], c)))
        blocks[loops[-1]] = 1
    for c in sorted(set(loops) - set(walked), key=lambda c: (c not in fastest, -c)):
        # Loops that no generic walks together run one after the other: the block of one leaves room for another's.
        room = max(power_at_most(AT_A_TIME // at_once(c)), 1)
        blocks[c] = min(room, covers[c])
    # What is left of the block goes to the parallel classes, the fastest first.
    total = max(math.prod(sizes[c] for c in space) for space in spaces)
    only_reduces = bool(whole) and not any(set(whole) & set(classes) for classes in written)
    large = only_reduces and not least and total >= MANY
    streams = large and not loops
    streams_down = large and bool(loops) and not walked and not fastest & set(whole)
    shared = total + beside
    # Values in one byte of the largest tensor: two where halves of bytes are multiplied.
    packed = total // max(math.prod(sizes[c] for c in t) for t in tensors) if streams and width == 1 else 1
    of_program, of_thread = _streamed(width, packed)
    limit = min(of_program, max(shared // PROGRAMS, 64)) if streams else _parallel_limit(shared)
    if packed > 1:
        limit = max(limit, LEAST_ROWS * math.prod(covers[c] for c in whole))
    if least:
        limit = max(limit, FEW)
    for c in sorted(parallel & fastest if _are_apart(set(whole) - set(loops), spaces) else parallel, reverse=True):
        room = power_at_most(limit // at_once())
        if room > 1:
            blocks[c] = min(blocks[c] * room, covers[c])
    work = at_once() // (32 * (of_thread if streams or streams_down else PER_THREAD))
    return Blocks(tuple(blocks.values()), tuple(sorted(loops)), min(max(power_at_most(work), 1), 16 if whole else 4))


def _streamed(width: int, packed: int) -> tuple[int, int]:
    """The elements that a program of a kernel which only reads has at once, and one of its threads. An element of the
    largest tensor has `width` bytes, and a byte `packed` values."""
    if width > 1:
        return BYTES_AT_ONCE // width, BYTES_PER_THREAD // width
    return UNPACKED_AT_ONCE * packed, BYTES_UNPACKED * packed


def _are_apart(whole: Collection[int], spaces: Sequence[Sequence[int]]) -> bool:
    """Whether no generic walks two of the classes together. Of several rows of these, Triton would lay out both alike,
    with all elements of the one in each thread: 10 KB of spills. What they share of a single row is a number."""
    return any(not any({*pair} <= {*space} for space in spaces) for pair in itertools.combinations(whole, 2))


def fastest_classes(sizes: Sequence[int], tensors: Sequence[Sequence[int]]) -> set[int]:
    """The classes that walk the contiguous dim of a large tensor."""
    elements = [math.prod(sizes[c] for c in classes) for classes in tensors]
    # Only large tensors decide.
    return {t[-1] for t, n in zip(tensors, elements, strict=True) if t and 4 * n >= max(elements)}


def product_blocks(products: Sequence[ir.Operation], classes: int) -> Blocks:
    """The block of a kernel of matrix products. Products that share their loops have one tile, which is halved until
    all sums fit registers. The products that a left factor is computed from each sum along a class of their own."""
    through = [op for op in products if FACTOR.is_on(op)]
    chief = (through or products)[0]
    tile = tile_of(chief)
    assert tile is not None
    m, n, k = roles_of(chief)
    blocks = [1] * classes
    if through:
        for op in products:
            own = tile_of(op)
            assert own is not None
            blocks[roles_of(op)[2]] = own.k
        blocks[m], blocks[n] = tile.m, tile.n
        return Blocks(tuple(blocks), (k,), tile.warps, tile.stages)
    blocks[m], blocks[n], blocks[k] = tile.m, tile.n, tile.k
    while len(products) * blocks[m] * blocks[n] > SUMS * tile.warps:
        blocks[max((m, n), key=lambda c: blocks[c])] //= 2
    return Blocks(tuple(blocks), (k,), tile.warps, tile.stages)


def window_blocks(
    dims: Sequence[WindowedDim], sizes: Sequence[int], parallel: Collection[int], channels: int
) -> Blocks:
    """The block of a sum over windows: some columns and `channels`, side by side in memory, for the threads, and some
    rows, whose sums each thread holds. An element that is loaded serves all rows whose windows it is in."""
    down, across = dims
    blocks = [1] * len(sizes)
    blocks[channels] = _width(sizes[channels])
    if across.loop >= 0:
        blocks[across.loop] = min(_COLUMNS, power_at_least(sizes[across.loop]))
    if down.loop >= 0:
        height, places = (sizes[c] if c >= 0 else 1 for c in (down.place, across.place))
        most = max(min(_ROWS, _MULTIPLICATIONS // (height * places)), 1)
        programs = math.prod(-(-sizes[c] // blocks[c]) for c in parallel if c != down.loop)

        def cost(rows: int) -> float:
            loaded = (rows - 1) * down.stride + height * abs(down.dilation)
            turns = -(-sizes[down.loop] // rows)
            waves = max(turns * programs, PROGRAMS)
            return waves * (_LOAD * loaded + rows * height)

        blocks[down.loop] = min(range(1, most + 1), key=cost)
    threads = math.prod(blocks[c] for c in range(len(sizes)) if c != down.loop) // _AT_ONCE
    return Blocks(tuple(blocks), (), max(threads // 32, 1))


def _width(channels: int) -> int:
    """Channels of a block: as many as possible, while all blocks together cover few more channels than there are."""
    covers = power_at_least(channels)
    return next((n for n in (64, 32) if -(-channels // n) * n <= _SPARE * channels), min(16, covers))


def _strip(sizes: Sequence[int], parallel: set[int]) -> int:
    """Columns of a strip: fewer, down to a memory sector of floats, if there would be too few programs."""
    programs = math.prod(sizes[c] for c in parallel)
    return max(min(STRIP, power_at_most(2 * programs // PROGRAMS)), SECTOR)


def _parallel_limit(total: int) -> int:
    """Most elements of a block, of `total` in all: fewer if there would be too few programs."""
    return min(BLOCK, max(power_at_most(total // PROGRAMS), 64))
