"""Finds reads at positions that are looked up or computed, and chooses blocks in which rows share them.

    ^bb0(%at: i64):                                       %at read along loops 2 and 3 of sizes = [16, 384, 9, 512]
      tensor.extract %x[index 0, index 1, index_cast %at]     →     blocks = [1, 8, 1, 256]

A position costs more than the element that is read there: a load of eight bytes, or a division, and comparisons that
keep it in bounds. So a program takes a few positions, two for each thread, and several rows that have the same ones.
Neighbouring threads read neighbouring positions, as such positions mostly increase by one or less: a resized image, a
window, distances. A thread that has eight positions side by side, as Triton would have it, reads far from the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cuesta._mlir import arith, ir
from cuesta.dialects.kernel_fields import APART, CLASSES, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.named_linalg import is_generic, is_index
from cuesta.dialects.product import tile_of
from cuesta.dialects.upstream_fields import constant_of
from cuesta.passes.analysis.gathered_loops import computed_reads, gathered_loops
from cuesta.passes.gpu.kernel_space import Space
from cuesta.sizes import Number
from cuesta.sizes.powers import power_at_least

#: Positions of a program, two for each thread of four warps; and the fewest, two for each thread of a warp: of fewer,
#: programs would have too little to do.
POSITIONS, FEWEST = 256, 64
#: Ops whose result has the neighbours of their first operand.
_SAME = {
    op.OPERATION_NAME for op in (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastUIOp)
}

#: Ops whose result has neighbours where both operands have, such as a position that is kept within a padded row.
_OF_BOTH = {op.OPERATION_NAME for op in (arith.AddIOp, arith.MinSIOp, arith.MaxSIOp)}


def looked_up_classes(
    generics: Sequence[ir.Operation], shapes: Mapping[ir.Value, tuple[Sequence[Number], Sequence[Number]]]
) -> list[int]:
    """The classes that computed positions depend on, in a kernel that reads neighbours along its last class from places
    that may lie apart. Marks such reads. `shapes` has the sizes and strides of the kernel's tensors. Empty for other
    kernels, and for those of products: blocks of factors are laid out for these."""
    found: set[int] = set()
    if any(is_generic(op) and (tile_of(op) is not None or windowed_dims(op)) for op in generics):
        return []
    for generic in generics:
        if not is_generic(generic):
            continue
        classes = CLASSES.of(generic)
        for read, (x, loops) in zip(computed_reads(generic), gathered_loops(generic), strict=True):
            positions = list(read.operands)[1:]
            # A row-major image has its neighbours along another class where a kernel walks channels last.
            if not positions or max(classes, default=-1) not in {classes[loop] for loop in loops[-1]}:
                continue
            if _follow(positions[-1]) and (x not in shapes or shapes[x][1][-1] == 1):
                continue
            APART.mark(read)
            computed = [own for position, own in zip(positions, loops, strict=True) if not _is_loop(position)]
            found |= {classes[loop] for own in computed for loop in own}
    return sorted(found)


def _is_loop(position: ir.Value) -> bool:
    return not isinstance(position.owner, ir.Block) and is_index(position.owner)


def _follow(x: ir.Value) -> bool:
    """Whether an integer in a generic's body, where it changes from one element to the next at all, mostly increases by
    one, in a way that Triton sees: a loop's index, with a number added, or chosen among such."""
    owner = x.owner
    if isinstance(owner, ir.Block):
        generic = owner.owner
        if not is_generic(generic):
            return True  # a size, which the kernel is passed
        source = generic.operands[ir.BlockArgument(x).arg_number]
        return not isinstance(source.owner, ir.Block) and is_generic(source.owner) and _follow(_yielded(source))
    if is_index(owner) or owner.name == arith.ConstantOp.OPERATION_NAME:
        return True
    operands = list(owner.operands)
    if owner.name in _SAME:
        return _follow(operands[0])
    if owner.name in _OF_BOTH:
        return all(map(_follow, operands))
    if owner.name == arith.SubIOp.OPERATION_NAME:
        return _follow(operands[0]) and constant_of(operands[1]) is not None
    if owner.name == arith.MulIOp.OPERATION_NAME:
        return constant_of(operands[1]) == 1 and _follow(operands[0])
    return owner.name == arith.SelectOp.OPERATION_NAME and all(map(_follow, operands[1:]))


def _yielded(result: ir.Value) -> ir.Value:
    """What a generic's body yields for one of its results."""
    number = list(result.owner.results).index(result)
    value: ir.Value = list(body_ops(result.owner))[-1].operands[number]
    return value


def row_blocks(space: Space, most: int) -> list[int] | None:
    """The block of a kernel whose positions depend on `space.looked_up`: two positions for each thread, the fastest
    first, and up to `most` rows that share them. None where no class is left for rows, where positions are few, or
    where the kernel reduces something."""
    last = max(space.parallel, default=-1)
    rows = [c for c in space.parallel if c not in space.looked_up]
    if last not in space.looked_up or space.whole or not rows:
        return None
    sizes = [1] * len(space.sizes)
    sizes[last] = min(POSITIONS, power_at_least(space.sizes[last]))
    for classes, room in ((space.looked_up, POSITIONS // sizes[last]), (rows, most)):
        for c in sorted(set(classes) - {last}, reverse=True):
            sizes[c] = min(room, _divisor(space.sizes[c]))
            room //= sizes[c]
    return sizes if math.prod(sizes[c] for c in space.looked_up) >= FEWEST else None


def _divisor(size: int) -> int:
    """The largest power of two that divides a size: blocks of it need no mask."""
    return size & -size
