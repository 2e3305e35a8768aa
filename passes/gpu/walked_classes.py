"""Finds the loops that a program of a GPU kernel walks: rows that are reduced both along and down, short sums of what
lies far apart, such as the two halves of an image's channels, and long sums down columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cuesta._mlir import ir
from cuesta.dialects.kernel_fields import CLASSES
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.passes.form_kernels.fusion.limits import GPU, PROGRAMS, SECTOR, STRIP
from cuesta.passes.gpu.kernel_space import Space, Walk
from cuesta.sizes.powers import power_at_least, power_at_most

#: How a program walks rows that are reduced both along and down. Each turn waits for its loads, and then for the sums
#: along its rows, so that a turn takes several short rows, of so many elements together. A row of up to 1024 elements
#: is one warp's, whose threads need no barrier for its sum. A norm's gradient took 8.7 µs on an H200 for 6272 rows of
#: 320, with two rows and four warps a turn 19.8; for 12608 rows of 768 44 µs instead of 61, for 25088 rows of 128 9.1
#: instead of 18.
#: With more tensors than `_HELD` the registers do not suffice for that, and a thread has a quarter of the elements.
_ROWS_AT_ONCE, _PER_ROW_THREAD, _HELD = 512, 32, 9
#: Where one warp would take `_MANY_TURNS` and more, and each warp has at least `_ROWS_OF_A_WARP` rows in a turn, up to
#: four warps share the turns: no row is parted, so that its sum still needs no barrier. One warp for each of 784 parts
#: leaves a multiprocessor's schedulers one or two to choose from, which wait for one another's divisions: the gradient
#: of 200,704 normalised rows of 48 took 197 µs on an H200, for 78 MB.
_MANY_TURNS, _ROWS_OF_A_WARP, _ROW_WARPS = 16, 4, 4
#: How a program walks down columns, where there are programs enough: a turn's rows, and its warps. It has more warps if
#: it also writes along the rows. The loads of three turns are in flight, if there is room for them in `_STAGED` bytes,
#: but not where rows do not begin at multiples of a sector of memory, which has 32 bytes: such a program has more
#: warps instead. Columns of at least `_LONG` rows that are only read have turns of more rows, by more warps. Batch
#: norm's statistics of 64 images of 56 x 56 and 144 channels took 34 µs on an H200, and 46 in a block of 128 rows; of
#: 14 x 14 and 672 channels 9.8 µs instead of 15.5, its gradient 14.4 instead of 29.7. The gradient for 128 images of
#: 112 x 112 and 24 channels took 60 µs, with loads in flight 86 to 89.
_ROWS_DOWN, _MORE_ROWS, _LONG, _WARPS, _MORE_WARPS = 32, 64, 1536, 2, 4
_STAGES, _STAGED = 3, 24 << 10
#: The least elements of a thread in such a turn, 16 bytes of narrow floats, so that a turn of 8 columns has more rows.
_LEAST_PER_THREAD = 8
#: Other dims that are reduced together with the columns have few elements: at most a turn's rows.
_FEW = 32

#: The most elements of a sum whose program walks them one after the other. All loads of so few turns are in flight
#: together, as the loop is unrolled.
_SHORT = 8


def find_walk(generics: Sequence[ir.Operation], space: Space) -> Walk:
    """How a program of a kernel walks classes. Without loops in a kernel that scatters."""
    if any(map(is_scatter, generics)):
        return Walk()
    if rows := _walked_rows(space):
        (c,) = rows
        # Each thread has its elements of all tensors, and of all sums down the rows.
        held = sum(bool(t) and t[-1] in space.fastest for t in space.tensors)
        per_thread = _PER_ROW_THREAD if held <= _HELD else _PER_ROW_THREAD // 4
        warps = _warps_of_rows(space, c)
        own = per_thread if warps == 1 else min(per_thread, _ROWS_AT_ONCE // 32)
        return Walk({c: warps * _ROWS_AT_ONCE}, own, widens=False, lengthens=False)
    if short := _short_sums(generics, space):
        return Walk(dict.fromkeys(short, 1), lengthens=False)
    if (short_down := _short_columns(generics, space)) is not None:
        return Walk({short_down: 1}, lengthens=False)
    down = _long_columns(generics, space)
    walk = Walk() if down is None else _walk_down(space, down)
    return replace(walk, singles=frozenset(_singles(generics, space)))


def _walked_rows(space: Space) -> list[int]:
    """The class that counts the rows that a program walks: those of a kernel that reduces rows both along and down, and
    whose program does not hold all of its rows at once. Empty for other kernels."""
    # Of each generic the classes that it keeps, and those that it reduces. `along` are the classes of a row.
    pairs = [({*classes} - own, own) for classes, own in zip(space.generics, space.reduced, strict=True)]
    along = {c for _, own in pairs if own & space.fastest for c in own}
    down = [own for kept, own in pairs if own and along & kept]
    beside = set[int]().union(*(kept for kept, own in pairs if own & along))
    found = sorted(beside & set[int]().union(*down))
    held = space.elements_of(space.whole)
    crosses = bool(along) and held > (GPU.staged_elements or 0) and len(found) == 1
    return found if crosses and space.can_loop(found) else []


def _warps_of_rows(space: Space, c: int) -> int:
    """How many times the rows of one warp's turn a program takes at once, where it walks the rows of class c."""
    row = math.prod(power_at_least(space.sizes[d]) for d in space.whole if d != c)
    turns = space.sizes[c] * row // _ROWS_AT_ONCE
    if turns < _MANY_TURNS or _ROWS_OF_A_WARP * row > _ROWS_AT_ONCE:
        return 1
    return min(_ROW_WARPS, power_at_most(2 * turns // _MANY_TURNS))


def _short_sums(generics: Sequence[ir.Operation], space: Space) -> list[int]:
    """The classes of few elements, a strip apart or more, that are all that a kernel reduces. In one block these
    elements would be in several threads, and their sums in some of the threads, from where they would go through shared
    memory to the others: a sum of two took 115 µs for 38 MB on an H100."""
    found = space.whole
    apart = all(c in space.parallel and space.sizes[c] >= STRIP for c in space.fastest)
    short = 1 < space.elements_of(found) <= _SHORT and all(_is_read_once(generics, c) for c in found)
    return found if apart and short and space.can_loop(found) else []


def _singles(generics: Sequence[ir.Operation], space: Space) -> list[int]:
    """The classes of few elements, a strip apart or more, along each of which sums of their own run, as over the two
    halves of an image's channels before their mean over pixels, or as a softmax."""
    short = [c for c in space.whole if 1 < space.sizes[c] <= _SHORT and _is_reduced_alone(generics, c)]
    apart = all(c not in short and space.sizes[c] >= STRIP for c in space.fastest)
    return short if apart and space.elements_of(short) <= _SHORT else []


def _is_reduced_alone(generics: Sequence[ir.Operation], c: int) -> bool:
    """Whether each op that reduces, and walks class c, reduces c alone, to one result."""
    for op in generics:
        reduced = reduced_classes(op)
        if reduced and c in CLASSES.of(op) and (reduced != {c} or len(op.results) != 1):
            return False
    return True


def _short_columns(generics: Sequence[ir.Operation], space: Space) -> int | None:
    """The class of the few rows down which several sums run, where there are columns enough for all multiprocessors. A
    program walks them with as many columns as it has threads for, so that each thread has its own sums. In a block of
    16 rows and 64 columns each sum takes the threads three barriers: the gradients of ResMLP's four factors took 60 µs
    on an H200, 19 for the bytes, and 32 where rows were walked because one is summed along them as well."""
    found = space.whole
    in_columns = all(c in space.parallel and space.sizes[c] >= STRIP for c in space.fastest)
    if len(found) != 1 or space.gathers or not in_columns or not space.can_loop(found):
        return None
    (c,) = found
    sums = sum(c in own for own in space.reduced)
    is_short = _SHORT < space.sizes[c] <= STRIP and all(_is_read_once(generics, own) for own in found)
    enough = space.elements_of(sorted(space.parallel)) >= PROGRAMS * _ROWS_AT_ONCE
    return c if sums > 1 and is_short and enough else None


def _long_columns(generics: Sequence[ir.Operation], space: Space) -> int | None:
    """The longest of the classes that are reduced down columns, where there are columns enough for all
    multiprocessors, a sector side by side at least, and few elements beside it."""
    down = max(space.whole, key=lambda c: space.sizes[c], default=None)
    in_columns = all(c in space.parallel and space.elements_of(space.beside(c)) >= SECTOR for c in space.fastest)
    if down is None or space.lookups or not in_columns or not space.can_loop([down]):
        return None
    programs, rows = space.elements_of(sorted(space.parallel)) // STRIP, space.elements_of(space.whole)
    # Turns that read at computed positions are not lengthened where few programs have too few loads in flight: with
    # them, the gradient of a pool of 32 images of 28 x 28 and 192 channels would have 2 MB of loads in flight.
    enough = 2 * PROGRAMS if space.gathers else PROGRAMS // 2
    return down if STRIP < rows <= _FEW * space.sizes[down] and programs >= enough else None


def _walk_down(space: Space, down: int) -> Walk:
    """How a program walks down columns; not at all if it reads few rows, and writes none of them or reads them at
    computed positions."""
    along = [t for t in space.tensors if down in t and not space.fastest.isdisjoint(t)]
    writes = sum(down in t and not space.fastest.isdisjoint(t) for t in space.written)
    in_one_turn = space.elements_of(space.whole) <= _MORE_ROWS
    if in_one_turn and (space.gathers or not writes):
        return Walk()
    long = space.sizes[down] >= _LONG and not writes and space.in_sectors
    columns = min([STRIP, *(power_at_least(space.elements_of(space.beside(c))) for c in space.fastest)])
    warps = _MORE_WARPS if long or writes or not space.in_sectors else _WARPS
    turn = max(columns * (_MORE_ROWS if long or in_one_turn else _ROWS_DOWN), 32 * warps * _LEAST_PER_THREAD)
    has_room = (_STAGES - 1) * turn * space.width * (len(along) - writes) <= _STAGED
    stages = _STAGES if has_room and space.in_sectors and not (in_one_turn or space.gathers) else 1
    return Walk({down: turn}, turn // (32 * warps), widens=False, stages=stages)


def _is_read_once(generics: Sequence[ir.Operation], c: int) -> bool:
    """Whether no op walks class c that needs what was reduced along it."""
    behind: set[ir.Operation] = set()
    for op in generics:
        needs = any(not isinstance(x.owner, ir.Block) and x.owner in behind for x in op.operands)
        if needs and c in CLASSES.of(op):
            return False
        if needs or c in reduced_classes(op):
            behind.add(op)
    return True


def reduced_classes(op: ir.Operation) -> set[int]:
    """The classes that a generic reduces. A scatter reduces none: all its loops are parallel."""
    if is_scatter(op):
        return set()
    return {c for c, kind in zip(CLASSES.of(op), ITERATOR_TYPES.of(op), strict=True) if kind == REDUCTION}
