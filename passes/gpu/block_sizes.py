"""Computes the block of a GPU kernel from the kernel's sizes, as numbers, and its tensors' memory order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cuesta._mlir import ir
from cuesta.dialects.product import FACTOR, roles_of, tile_of
from cuesta.passes.form_kernels.fusion.limits import PROGRAMS, SECTOR, STRIP
from cuesta.passes.gpu.kernel_space import Space, Walk, neighbours
from cuesta.passes.gpu.looked_up import POSITIONS, row_blocks
from cuesta.sizes.powers import power_at_least, power_at_most

#: Elements of a block, eight for each of 128 threads, as far as parallel classes can fill it.
BLOCK = 1024
#: Elements of a block, and of a thread, where neighbouring threads read neighbouring elements: in kernels of few
#: tensors that reduce nothing, in those whose rows share numbers, and in those that write at computed positions, whose
#: programs do little but wait. All need so many blocks (`ENOUGH`). On an H200, gelu of 39 million numbers took 40 µs,
#: with blocks of half the size 48, and of a quarter 94, as a GPU starts about one block in a nanosecond. A kernel that
#: converts twelve weights took 239 µs with these blocks, and 48 with smaller ones.
SIDE_BY_SIDE, PER_PARALLEL_THREAD, FEW_TENSORS, ENOUGH = 2048, 16, 4, 4 * PROGRAMS
#: With more tensors than these a program has much to do for each element, whatever is launched beside it. Of 16 columns
#: of i64 a thread held 8 rows in 255 registers, and spilled, in four programs.
MANY_TENSORS = 16
#: The columns of such a block whose rows share numbers, one for each column. The fewer columns it has, the more rows
#: share what a thread loads. A block has all columns up to `NARROW`, else the first of `WIDTHS` whose blocks cover at
#: most 15 % more columns than there are. The gradient of a batch norm and silu took 86 µs for 200704 rows of 144, and
#: 176 µs in blocks of 4 rows; 12544 rows of 672 took 10.7 µs in blocks of 128 columns, 9.9 in blocks of 64, 12.8 in
#: blocks of 1024, and 16.6 in blocks of 16.
NARROW, WIDTHS = 256, (128, 64)
#: Most elements of one tensor that a program holds at once if it needs a class whole.
WHOLE = 16384
#: Most elements of all its large tensors that such a program holds: as many as a multiprocessor has registers. ptxas
#: took 350 s for a program that held 16384 elements of each of five tensors, and spilled 150 KB.
HELD = 1 << 16
#: Most elements that a loop takes at a time.
AT_A_TIME = 4096
#: Width, along each of two classes, of a block that is transposed. Where the last dim of a tensor is shorter, as of an
#: image that is made of others' pixels, so many neighbours are parts of several dims.
SQUARE = 32
#: The narrowest part of a row: 128 bytes of 16-bit floats.
_NARROWEST = 64
#: Least elements of a block if sizes differ from call to call.
FEW = 256
#: Bytes whose loads have to be in flight together to keep an H200's memory busy, 48 KB on each multiprocessor. Where
#: the loops of few programs have less than half of that, a turn takes more elements. A thread then has `MORE` of them,
#: in kernels of few tensors, as what it holds for each column, such as a mean, is held once for all of its rows. A
#: contiguous row has `LEAST_TURNS` still: only then is the last one apart, and the others without a mask. The sum of
#: 30,528 columns, 954 programs with a third of it in flight, took 285 µs so, and 170 with more warps of fewer elements.
IN_FLIGHT, MORE, LEAST_TURNS = 6 << 20, 32, 4
#: Most elements per thread; a program with more work gets more threads.
PER_THREAD = 8
#: Most warps of a program that has a class whole, or walks it.
MOST_WARPS = 16
#: Bytes that a program reads, and a thread, where a kernel only reduces rows of at least `MANY` elements in all, as a
#: product by a vector does: more loads in flight, and fewer threads that wait for one another.
BYTES_AT_ONCE, BYTES_PER_THREAD, MANY = 8192, 64, 1 << 20
#: The same where elements have one byte, or half of one: such a kernel is bound by arithmetic, and more rows then share
#: what a thread does with the vector. A step of a Llama with int8 took 0.81 ms on an H100 with 8192 bytes a program,
#: 0.69 with 16384, 0.72 with 32768; with int4 1.25, 1.09 and 1.11.
UNPACKED_AT_ONCE, BYTES_UNPACKED = 16384, 128
#: The least rows of a program where two values are in a byte: it reads four bytes of the vector for each byte of a row.
#: With K = 8192 a product of 2048 rows took 10.8 µs on an H200 with four rows, 6.3 with eight.
LEAST_ROWS = 8
_NONE: Mapping[int, int] = {}
#: By how much the columns of all blocks may exceed those that there are.
_SPARE = 1.15
#: Rows that tensor cores multiply at once from capability 9.0 on. With blocks of fewer they take other instructions: an
#: epilogue of 32 rows took 1008 of them, of 64 rows 720.
AT_ONCE = 64
#: Elements that a thread may have of a class which no op walks together with another one.
FEW_APART = 8
#: Most sums of matrix products per warp: 128 registers of each thread.
SUMS = 4096


@dataclass(frozen=True)
class Blocks:
    """The block of a kernel: a size for each class, the classes that a loop walks, the number of 32-thread warps."""

    sizes: tuple[int, ...]
    loops: tuple[int, ...]
    warps: int
    #: how many turns of a loop have their loads in flight at once
    stages: int = 1
    #: whether rows of the block share computed positions
    shares_positions: bool = False
    #: the classes whose elements are taken one after the other, without a loop
    singles: tuple[int, ...] = ()
    #: how many neighbouring columns of a sum over windows are one thread's
    neighbours: int = 1


def choose(space: Space, walk: Walk, least: Mapping[int, int] = _NONE, beside: int = 0) -> Blocks:
    """The block of a kernel. `least` maps classes whose size differs from call to call to the least size that their
    blocks must cover. `beside` is the elements of what is launched together with it, whose programs keep the GPU busy
    too."""
    if space.looked_up and not least and (blocks := _of_positions(space, space.total + beside)) is not None:
        return blocks
    block = _Block.of(space, least, walk.singles)
    for c in block.whole:
        block.sizes[c] = block.covers[c]
    for c, columns in _columns(space, space.total + beside).items():
        block.sizes[c] = min(columns, block.covers[c])
    loops = block.loop(walk)
    if not least:
        walk = block.lengthen(walk, loops)
    limit, per_thread = _work(block, walk, loops, space.total + beside, bool(least))
    if not (space.whole or least or space.columns is not None):
        block.fit(limit)
    # What is left of the block goes to the parallel classes, the fastest first, but columns that rows share last.
    is_apart = _are_apart({c: block.sizes[c] for c in block.whole if c not in loops}, space.generics)
    order = space.parallel & space.fastest if is_apart else space.parallel
    for c in sorted(order, key=lambda c: (c != space.columns, c), reverse=True):
        block.grow(c, limit)
    warps = max(power_at_most(block.at_once() // (32 * per_thread)), 1)
    warps = min(warps, MOST_WARPS if space.whole else 4)
    return Blocks(tuple(block.sizes), tuple(sorted(loops)), warps, walk.stages, singles=tuple(sorted(walk.singles)))


@dataclass
class _Block:
    """The block of a kernel while it is chosen: for each class its size, and that which covers the class."""

    space: Space
    covers: list[int]
    sizes: list[int]
    #: The classes that have no axis in the block: a program holds all of their elements.
    singles: frozenset[int]

    @staticmethod
    def of(space: Space, least: Mapping[int, int], singles: frozenset[int]) -> _Block:
        covers = [power_at_least(max(n, least.get(c, 1))) for c, n in enumerate(space.sizes)]
        return _Block(space, covers, [1] * len(covers), singles)

    @property
    def whole(self) -> list[int]:
        """The classes that a program has whole along an axis of the block, or walks in a loop."""
        return [c for c in self.space.whole if c not in self.singles]

    def at_once(self, of: int | None = None) -> int:
        """Most elements that one generic holds at once, of those that walk class `of` if it is given."""
        walked = [classes for classes in self.space.generics if of is None or of in classes]
        held = [whole if c in self.singles else self.sizes[c] for c, whole in enumerate(self.space.sizes)]
        return max((math.prod(held[c] for c in classes) for classes in walked), default=1)

    def grow(self, c: int, most: int) -> None:
        """Takes as many elements along a class as there is room for, where `most` may be held at once."""
        room = power_at_most(most // self.at_once())
        if room > 1:
            self.sizes[c] = min(self.sizes[c] * room, self.covers[c])

    def fit(self, most: int) -> None:
        """Chooses blocks along contiguous dims, of at most `most` elements: the widest that together cover few more
        elements than there are, or else the widest. A copy of rows of 257 took 16 µs in blocks of 512 on an H200, 23 in
        blocks of 64."""
        for c in {*self.space.fastest, *(c for c, size in enumerate(self.sizes) if size > 1)}:
            widest, count = min(self.covers[c], most), self.space.sizes[c]
            narrowest = min(widest, self.sizes[c] if self.sizes[c] > 1 else _NARROWEST)
            widths = [widest >> n for n in range(widest.bit_length()) if widest >> n >= narrowest]
            covered = {n: -(-count // n) * n for n in widths}
            fits = (n for n in widths if covered[n] <= _SPARE * count)
            self.covers[c] = next(fits, widest)

    def loop(self, walk: Walk) -> list[int]:
        """Leaves to loops the classes that are walked, and those that do not fit the registers; returns them."""
        for c in walk.turns:
            self.sizes[c] = 1
        for c, most in walk.turns.items():
            self.sizes[c] = min(power_at_most(most // self.at_once(c)), self.covers[c])
        loops = list(walk.turns)
        most = min(WHOLE, HELD // self.space.large)
        while self.at_once() > (AT_A_TIME if set(loops) - walk.turns.keys() else most):
            others = [c for c in self.whole if c not in loops and self.space.can_loop([*loops, c])]
            if not others:
                break
            loops.append(max(others, key=lambda c: (self.sizes[c], c)))
            self.sizes[loops[-1]] = 1
        for c in sorted(set(loops) - walk.turns.keys(), key=lambda c: (c not in self.space.fastest, -c)):
            # Loops that no generic walks together run one after the other: the block of one leaves room for another's.
            room = max(power_at_most(AT_A_TIME // self.at_once(c)), 1)
            self.sizes[c] = min(room, self.covers[c])
        return loops

    def lengthen(self, walk: Walk, loops: Sequence[int]) -> Walk:
        """Takes more elements at a time in the only loop of a kernel whose programs have few loads in flight; returns
        how they walk then."""
        if len(loops) != 1 or not walk.lengthens or self.space.gathers:
            return walk
        (c,), space = loops, self.space
        along, written = (
            [t for t in tensors if c in t and not space.fastest.isdisjoint(t)]
            for tensors in (space.tensors, space.written)
        )
        programs = math.prod(-(-space.sizes[p] // self.sizes[p]) for p in space.parallel)
        loaded = programs * self.at_once(c) * space.width * max(len(along) - len(written), 1)
        if 2 * loaded * max(walk.stages - 1, 1) >= IN_FLIGHT or programs > 3 * PROGRAMS:
            return walk
        per_thread = MORE // power_at_least(-(-len(along) // FEW_TENSORS))
        most = 32 * MOST_WARPS * per_thread // self.at_once(c)
        whole = power_at_most(space.sizes[c] // LEAST_TURNS) if c in space.fastest else self.covers[c]
        longer = min(self.sizes[c] * power_at_most(min(IN_FLIGHT // loaded, most)), whole)
        if longer <= self.sizes[c]:
            return walk
        self.sizes[c] = longer
        return replace(walk, per_thread=per_thread, widens=False, stages=1)


def _work(block: _Block, walk: Walk, loops: Collection[int], shared: int, varies: bool) -> tuple[int, int]:
    """The most elements of a program, and of one of its threads. `shared`: elements of all programs together. `varies`:
    some sizes differ from call to call."""
    space = block.space
    if not walk.widens:
        return 1, walk.per_thread
    if space.only_reduces and not varies and space.total >= MANY and not loops:
        # Values in one byte of the largest tensor: two where halves of bytes are multiplied.
        packed = space.total // max(map(space.elements_of, space.tensors)) if space.width == 1 else 1
        of_program, of_thread = _streamed(space.width, packed)
        limit = min(of_program, max(shared // PROGRAMS, 64))
        rows = math.prod(block.covers[c] for c in space.whole)
        return max(limit, LEAST_ROWS * rows if packed > 1 else 1), of_thread
    # A size that differs from call to call may be a multiple of the smaller block, and then needs no mask.
    is_plain = len(space.tensors) <= FEW_TENSORS and not (varies or space.whole or space.gathers)
    side_by_side = is_plain or space.columns is not None or space.scatters
    is_large = side_by_side and shared >= SIDE_BY_SIDE * ENOUGH
    most, per_thread = (SIDE_BY_SIDE, PER_PARALLEL_THREAD) if is_large else (BLOCK, PER_THREAD)
    limit = min(most, _share(shared if len(space.tensors) <= MANY_TENSORS else space.total))
    return max(limit, FEW) if varies else limit, per_thread


def _of_positions(space: Space, shared: int) -> Blocks | None:
    """The block of a kernel whose rows share computed positions; None for others. `shared`: as for `_work`."""
    is_large = shared >= SIDE_BY_SIDE * ENOUGH and space.lookups <= FEW_TENSORS
    most = min(PER_PARALLEL_THREAD if is_large else PER_THREAD, max(_share(shared) // POSITIONS, 1) * 2)
    sizes = row_blocks(space, most // 2)
    if sizes is None:
        return None
    threads = math.prod(sizes[c] for c in space.looked_up) // 2
    return Blocks(tuple(sizes), (), min(max(power_at_most(threads) // 32, 1), 4), shares_positions=True)


def _share(shared: int) -> int:
    """The elements of a program where there are just programs enough; 64 at least."""
    return max(power_at_most(shared // PROGRAMS), 64)


def _columns(space: Space, shared: int) -> dict[int, int]:
    """Class → the columns of a block along it, where rows are taken side by side. `shared`: as for `_work`."""
    if space.whole:
        strip, found = _strip(space.sizes, space.parallel), dict[int, int]()
        for c in sorted(space.fastest & space.parallel):
            for own, part in neighbours(space.beside(c)[::-1], space.sizes, strip):
                found[own] = max(found.get(own, 1), part)
        return found
    if space.columns is not None:
        count = space.sizes[space.columns]
        return {space.columns: min(NARROW if count <= NARROW else block_width(count, WIDTHS), _share(shared))}
    return space.runs(SQUARE, SIDE_BY_SIDE)


def _streamed(width: int, packed: int) -> tuple[int, int]:
    """The elements that a program of a kernel which only reads has at once, and one of its threads. An element of the
    largest tensor has `width` bytes, and a byte `packed` values."""
    if width > 1:
        return BYTES_AT_ONCE // width, BYTES_PER_THREAD // width
    return UNPACKED_AT_ONCE * packed, BYTES_UNPACKED * packed


def _are_apart(whole: Mapping[int, int], spaces: Sequence[Sequence[int]]) -> bool:
    """Whether there are two of the classes `whole`, of which the block has so many elements, that no generic walks
    together. Of several rows of these, Triton would lay out both alike, with all elements of the one in each thread: 10
    KB of spills. What they share of a single row is a number. Two classes of few elements have nothing to spill."""
    pairs = [pair for pair in itertools.combinations(whole, 2) if max(whole[c] for c in pair) > FEW_APART]
    return any(not any({*pair} <= {*space} for space in spaces) for pair in pairs)


def product_blocks(products: Sequence[ir.Operation], sizes: Sequence[int]) -> Blocks:
    """The block of a kernel of matrix products; `sizes` are 0 for classes of which only a call tells. Products that
    share their loops have one tile, which is halved until all sums fit registers. The products that left factors are
    computed from each sum along a class of their own, and those of computed factors each have columns of their own.

    Rows that are several dims, as of images with a scale each, have blocks along one of them, and the tile was chosen
    for all: a block has no more rows than cover that dim, but `AT_ONCE`, and fewer warps.
    """
    through = [op for op in products if FACTOR.is_on(op)]
    chief = (through or products)[0]
    tile = tile_of(chief)
    assert tile is not None
    m, n, k = roles_of(chief)
    blocks = [1] * len(sizes)
    if through:
        for op in products:
            own = tile_of(op)
            assert own is not None
            blocks[roles_of(op)[2]] = own.k
        blocks[m] = tile.m
        for op in through:
            own = tile_of(op)
            assert own is not None
            blocks[roles_of(op)[1]] = own.n
        return Blocks(tuple(blocks), (k,), tile.warps, tile.stages)
    most = max(power_at_least(sizes[m]), AT_ONCE) if sizes[m] else tile.m
    if tile.m > most:
        tile = replace(tile, m=most, warps=max(tile.warps * most // tile.m, min(tile.warps, 4)))
    blocks[m], blocks[n], blocks[k] = tile.m, tile.n, tile.k
    while len(products) * blocks[m] * blocks[n] > SUMS * tile.warps:
        blocks[max((m, n), key=lambda c: blocks[c])] //= 2
    return Blocks(tuple(blocks), (k,), tile.warps, tile.stages)


def block_width(channels: int, widths: Sequence[int]) -> int:
    """Channels of a block: as many of `widths`, the widest first, as cover few more channels than there are."""
    covers = power_at_least(channels)
    fits = (n for n in widths if -(-channels // n) * n <= _SPARE * channels)
    return min(next(fits, widths[-1]), covers)


def _strip(sizes: Sequence[int], parallel: Collection[int]) -> int:
    """Columns of a strip: fewer, down to a memory sector of floats, if there would be too few programs."""
    programs = math.prod(sizes[c] for c in parallel)
    return max(min(STRIP, power_at_most(2 * programs // PROGRAMS)), SECTOR)
