"""Chooses the sizes of a kernel's tiles: by a rule of thumb, from the kernel's mark, or as `max_autotune` measured.

A tile is one point of the parallel classes with the whole of all other classes (a row), or several rows if elementwise
work has short rows. If all classes are parallel, a tile is a run along the fastest class. If the fastest class is
parallel and others are not (sums down columns), a tile is a strip of the fastest class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import product
from cuesta.dialects.kernel_fields import AFTER_TILES, CLASSES, TILE
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.errors import VerifyError
from cuesta.passes.form_kernels.fusion.limits import LEAST_ROWS, NARROWEST_STRIP
from cuesta.policy.choices import Question, choose, measuring
from cuesta.sizes import Number, Size, hint


@dataclass(frozen=True)
class Limits:
    """Approximate sizes of tiles, in elements."""

    #: of a tile that is a run along the fastest class: a few passes over it stay in L1
    run: int = 4096
    #: width of a strip of columns; None: `_strip` decides
    strip: int | None = None
    #: width of a transposed tile, along the fastest class of the tensor that loops read against its memory order
    block: int = 32


USUAL = Limits()
#: Limits that are measured against the usual ones.
_OTHERS = (
    Limits(run=1024),
    Limits(run=16384),
    *(Limits(strip=n) for n in (32, 128, 256, 1024)),
    *(Limits(block=n) for n in (8, 16, 64)),
)

#: Most elements of a short row, of which a tile takes several.
_SHORT = 1024
#: A tile takes several neighbouring runs of contiguous elements to reduce if a run has at most `_BESIDE` elements, and
#: if at least about `_FEWEST_TILES` tiles are left.
_BESIDE, _FEWEST_TILES = 32, 64

#: Side, in elements, of a square that is transposed in registers.
_SQUARE = 16

#: Elements of a run, by the number of large tensors: together their runs take less than half of L1, or 20 KB.
_IN_L1 = (4096, 4096, 4096, 2048, 1024)

#: Scalar operations below which tile sizes make no measurable difference.
_LITTLE_WORK = 1 << 15


def largest_divisor(size: int, limit: int) -> int:
    """The largest divisor of `size` that is at most `limit`; `size` itself if that divisor is less than an eighth of
    the limit (or of `size`, if smaller)."""
    best = max((d for d in range(1, min(size, limit) + 1) if size % d == 0), default=1)
    return best if best * 8 >= min(size, limit) else size


def tile_sizes(
    sizes: Sequence[Number],
    parallel: set[int],
    tensors: Sequence[Sequence[int]],
    limits: Limits = USUAL,
    rows: int = 1,
    reduces: bool = True,
    reaches: bool = False,
) -> dict[int, int]:
    """Class → tile size for the parallel classes.

    `tensors` lists, for each tensor of the kernel, the classes of its dims in memory order. Along a class whose size
    depends on the call, the last tile is the remainder. If all classes are parallel, a tile has about `rows` rows
    or more, if there are rows. If nothing `reduces` and rows are short, a tile has several rows. If the last tile
    `reaches` back into the tile before it, transposed tiles consist of whole squares and need not divide a size.
    """
    about = [max(hint(n), 1) for n in sizes]  # 0 would be no valid divisor

    def tile(c: int, limit: int) -> int:
        return limit if isinstance(sizes[c], Size) else largest_divisor(about[c], limit)

    tiles = dict.fromkeys(parallel, 1)
    if not parallel:
        return tiles
    elements = [math.prod(about[c] for c in classes) for classes in tensors]
    # Only large tensors decide: how a vector of row statistics is walked costs nothing.
    fastest = {classes[-1] for classes, n in zip(tensors, elements, strict=True) if 4 * n >= max(elements)}
    rest = [c for c in range(len(about)) if c not in parallel]
    if rest:
        for c in fastest & parallel:
            tiles[c] = tile(c, limits.strip or _strip(about[c]))
        for c in parallel - fastest:
            if any(_is_read_again(classes, c, fastest & parallel, rest) for classes in tensors):
                tiles[c] = tile(c, LEAST_ROWS)
        if not reduces and not fastest & parallel and not any(isinstance(n, Size) for n in sizes):
            row = max(math.prod(about[c] for c in classes if c in rest) for classes in tensors)
            tiles[max(parallel)] = tile(max(parallel), max(_SHORT // row, 1))
        elif reduces and not fastest & parallel and not any(isinstance(n, Size) for n in sizes):
            c = max(parallel)
            beside = math.prod(about[d] for d in rest if d > c)
            if beside <= _BESIDE and any(d in rest for classes in tensors if c in classes for d in classes if d < c):
                others = math.prod(about[d] for d in parallel if d != c)
                tiles[c] = tile(c, max(min(_SHORT // beside, others * about[c] // _FEWEST_TILES), 1))
        return tiles
    run = 1
    last = max(parallel)
    across = (fastest & parallel) - {last}
    for c in sorted(parallel, reverse=True):
        if c != last and (about[c] * run > limits.run or run != math.prod(about[c + 1 : last + 1])):
            if c not in across:
                tiles[c] = tile(c, max(limits.run // run, rows))
            break
        if isinstance(sizes[c], Size):
            tiles[c] = max(limits.run // run, 1)
            break
        tiles[c] = about[c] if about[c] * run <= 2 * limits.run else largest_divisor(about[c], limits.run)
        run *= tiles[c]
    for c in across:
        if tiles[c] == 1:
            for d, limit in zip((c, last), _across(about[c], about[last], limits.block), strict=True):
                tiles[d] = tile(d, limit)
                if reaches and isinstance(sizes[d], int) and tiles[d] % _SQUARE:
                    each = -(-about[d] // -(-about[d] // limit))
                    tiles[d] = min(-(-each // _SQUARE) * _SQUARE, about[d])
    return tiles


def _across(read: int, written: int, block: int) -> tuple[int, int]:
    """The sides of a transposed tile: along the dim that is contiguous in the tensor read, and along the last dim.
    Contiguous runs are long on at least one side. If the rows of one side are short, the runs of the other side are
    long, 16 at a time, which the hardware prefetches (a copy of 64 channels of 56x56 to channels_last takes 0.6 of the
    time)."""
    wide = 4 * block
    if written <= wide < read:
        return 2 * wide, _SQUARE
    if read <= wide < written:
        return _SQUARE, 2 * wide
    return block, wide


def loop_order(tiles: dict[int, int], tensors: Sequence[Sequence[int]]) -> list[int]:
    """The classes that tiles cut, in the order of the loops over tiles, the last fastest: the order of their numbers.
    But if transposed tiles are long along the contiguous class of the tensor read, that class comes last."""
    order = sorted(tiles)
    long = [c for c in order if tiles[c] > tiles[order[-1]] == _SQUARE and any(t[-1] == c for t in tensors)]
    return [c for c in order if c not in long] + long


def _is_read_again(classes: Sequence[int], c: int, strips: set[int], rest: Sequence[int]) -> bool:
    """Whether all points of class c read the same elements of a tensor, against its memory order. Several points in one
    tile then share the transpose."""
    return c not in classes and classes[-1] in rest and bool(strips & set(classes))


def _strip(columns: int) -> int:
    """The width of a strip, which one thread sums, for about `columns` columns. The wider the strip, the longer the
    runs that are read of each row: for 2048 rows of 1024, with small pages, width 128 takes 0.87 of the time of 64,
    and 256 takes 0.57 (0.75 and 0.61 if the number of columns is symbolic). But eight threads shall have a strip each.
    """
    return min(max(columns // 8, NARROWEST_STRIP), 4 * NARROWEST_STRIP)


def tiles_of(
    function: func.FuncOp,
    sizes: Sequence[Number],
    parallel: set[int],
    tensors: Sequence[Sequence[int]],
    work: Number,
    reaches: bool,
) -> dict[int, int]:
    """Class → tile size for the parallel classes of a kernel. Marks the kernel with the tile that was chosen by
    measuring, unless that is the usual one.

    `work` is how many scalar operations the kernel takes. Raises VerifyError if the kernel is marked with tiles
    that do not divide its sizes.
    """
    order = sorted(parallel)
    for op in function.regions[0].blocks[0].operations:
        panels = product.panels_of(op.operation)
        if panels is not None:
            return _of_product(op.operation, panels, sizes, parallel)
    if TILE.is_on(function):
        return dict(zip(order, _marked(function, [sizes[c] for c in order]), strict=True))
    rows = LEAST_ROWS if _repeats(function, parallel) else 1
    limits = _limits(function)
    reduces = any(REDUCTION in ITERATOR_TYPES.of(g) for g in tiled_generics(function))
    usual = tile_sizes(sizes, parallel, tensors, limits, rows, reduces, reaches)
    if (
        not measuring()
        or work < _LITTLE_WORK
        or any(isinstance(sizes[c], Size) or sizes[c] % t for c, t in usual.items())
    ):
        return usual
    ways = [tile_sizes(sizes, parallel, tensors, way, rows, reduces) for way in (limits, *_OTHERS)]
    names = dict.fromkeys("x".join(str(way[c]) for c in order) for way in ways)
    question = Question("tile", function.name.value, kernel_text(function), tuple(names))
    chosen = choose(question, function)
    if chosen != question.candidates[0]:
        mark_tile(function, chosen)
        return tiles_of(function, sizes, parallel, tensors, work, reaches)
    return usual


def _limits(function: func.FuncOp) -> Limits:
    """The approximate tile sizes of a kernel. If it has several results, their loops follow one another, and values
    that pass between the loops stay in L1 if the whole tile fits there: a step of SGD takes 0.81 of the time."""
    *_, end = function.regions[0].blocks[0].operations
    if len(end.operands) < 2:
        return USUAL
    kinds = [ir.RankedTensorType(a.type) for a in function.arguments if isinstance(a.type, ir.RankedTensorType)]
    counts = [math.prod(kind.shape) for kind in kinds if kind.has_static_shape]
    streams = sum(4 * n >= max(counts) for n in counts)
    return Limits(run=_IN_L1[min(streams, len(_IN_L1) - 1)])


def _repeats(function: func.FuncOp, parallel: set[int]) -> bool:
    """Whether a generic of the kernel lacks a parallel class, so that every tile along the class repeats it."""
    return any(not parallel <= set(CLASSES.of(g)) for g in tiled_generics(function))


def tiled_generics(function: func.FuncOp) -> list[ir.Operation]:
    """The generics that run in the tiles of a kernel, without its tail."""
    ops = (op.operation for op in function.regions[0].blocks[0].operations)
    return [op for op in ops if is_generic(op) and not AFTER_TILES.is_on(op)]


def _of_product(
    generic: ir.Operation, tile: product.Panels, sizes: Sequence[Number], parallel: set[int]
) -> dict[int, int]:
    """Class → tile size for a kernel with a matrix product. Along M and N: the size in the product's tile, or the
    size's largest divisor above half of that. Along every other parallel class: 1."""
    m, n, _ = product.roles_of(generic)
    tiles = dict.fromkeys(parallel, 1)
    for c, wanted in ((m, tile.m), (n, tile.n)):
        size = sizes[c]
        whole = wanted if isinstance(size, Size) else min(size, wanted)
        divisors = [] if isinstance(size, Size) else [d for d in range(whole // 2 + 1, whole + 1) if size % d == 0]
        tiles[c] = max(divisors, default=whole)
    return tiles


def mark_tile(function: func.FuncOp, tile: str) -> None:
    """Marks a kernel with its tile, such as "16x128"."""
    TILE.put(function, [int(size) for size in tile.split("x")])


def _marked(function: func.FuncOp, sizes: list[Number]) -> list[int]:
    tile = TILE.of(function)
    if len(tile) != len(sizes) or any(
        t < 1 or (isinstance(n, int) and n % t != 0) for n, t in zip(sizes, tile, strict=True)
    ):
        raise VerifyError(f"kernel {function.name.value} has {TILE.name} = {tile}, which does not divide {sizes}")
    return tile


def kernel_text(function: func.FuncOp) -> str:
    """A kernel as text that is equal for equal kernels with different names, without Python source lines."""
    text: str = function.operation.get_asm(enable_debug_info=False, use_local_scope=True)
    return text.replace(f"@{function.name.value}", "@kernel", 1)
