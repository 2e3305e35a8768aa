"""Stores a block of pairs as a block of rows, where the pairs of a row lie side by side in memory.

    tt.store(%base + 32 * %row + 2 * (0 … 15) + (0, 1), %x)     →     tt.store(%base + 32 * %row + (0 … 31), %y)

%x : tensor<32x16x2xbf16>, and %y its tt.reshape, tensor<32x32xbf16>

Triton stores at once only what lies side by side along one dim: each pair would be a store of its own, of four bytes.
A kernel that unpacks a weight of 8192x2048 elements from halves of bytes took 45 µs on an H200 so; its bytes take 10.
A stack along the last dim writes such pairs as well, as in a rotary embedding, or of real and imaginary parts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from cuesta._mlir import arith, ir
from cuesta.dialects import maker, ops_named, tt
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.tt.ops import AddPtr, Broadcast, ExpandDims, MakeRange, Splat, Store
from cuesta.dialects.tt.repeated import number_of, unrepeated
from cuesta.dialects.types import byte_size, spelled
from cuesta.passes.infra.registry import Pass, register_pass

#: Bytes that a thread can store at once.
_WIDE = 16
#: Ops that positions are made of, besides ranges and constants.
_MADE_ANEW = (arith.AddIOp.OPERATION_NAME, arith.MulIOp.OPERATION_NAME, Broadcast.OPERATION_NAME)


@register_pass("store-pairs")
class StorePairs(Pass):
    """Stores blocks whose last dim is short, and contiguous with the one before, as rows."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for op in ops_named(nested.operation, [Store.OPERATION_NAME]):
                    _merge(op)


def _merge(op: ir.Operation) -> None:
    pointer, value, *mask = op.operands
    *shape, rows, pair = (1, 1, *tt.shape_of(value))
    moved = maker(pointer, AddPtr)
    base = None if moved is None else maker(moved.operands[0], Splat)
    is_short = 1 < pair * byte_size(spelled(tt.element_of(value))) < _WIDE and pair > 1 and rows > 1
    if mask or base is None or moved is None or not is_short:
        return
    terms = [*_terms(moved.operands[1])]
    others = [x for x in terms if tt.shape_of(x)[-2:] == (1, 1)]
    along = [x for x in terms if x not in others]
    with ir.InsertionPoint(op), op.location:
        shorter = [_shorter(x) for x in others]
        if len(along) != 2 or not _are_side_by_side(along, rows, pair) or any(x is None for x in shorter):
            return
        merged, kind = (*shape[2:], rows * pair), tt.element_of(terms[0])
        start = _start_of(min(along, key=lambda x: tt.shape_of(x)[-1]).owner.operands[0])
        if start is not None and start.type != kind:
            return
        own = tt.make_range(0, rows * pair)
        own = own if tt.element_of(own) == kind else arith.extsi(tt.block_type(tt.shape_of(own), kind), own)
        if start is not None:
            own = arith.addi(tt.splat(arith.muli(start, tt.constant(pair, kind)), tt.shape_of(own)), own)
        for axis in range(len(merged) - 1):
            own = tt.expand_dims(own, axis)
        parts = [own]
        parts += [x for x in shorter if x is not None]
        offset = functools.reduce(arith.addi, [tt.broadcast(x, merged) for x in parts])
        tt.store(tt.addptr(tt.splat(base.operands[0], merged), offset), tt.reshape(value, merged))
    op.erase()


def _terms(offset: ir.Value) -> Iterator[ir.Value]:
    """The blocks that are added up to an offset, before they are repeated."""
    offset = unrepeated(offset)
    op = maker(offset, arith.AddIOp)
    if op is None or max(tt.shape_of(offset)[-2:]) == 1:
        yield offset
    else:
        for x in op.operands:
            yield from _terms(x)


def _are_side_by_side(terms: list[ir.Value], rows: int, pair: int) -> bool:
    """Whether of two terms one is the position in a pair, and the other one where the pair begins."""
    starts, within = sorted(terms, key=lambda x: tt.shape_of(x)[-1])
    times = maker(starts, arith.MulIOp)
    return (
        times is not None
        and _start_of(within) is None
        and number_of(times.operands[1]) == pair
        and _is_range(times.operands[0], rows, -2)
        and _is_range(within, pair, -1)
    )


def _is_range(x: ir.Value, size: int, axis: int) -> bool:
    """Whether a block holds `size` numbers, one after the other, along an axis of its own."""
    is_alone = tt.shape_of(x)[axis] == size == math.prod(tt.shape_of(x))
    _, x = _start_and_range(x)
    made = maker(x, MakeRange)
    return is_alone and made is not None and (MakeRange.start.of(made), MakeRange.end.of(made)) == (0, size)


def _start_of(x: ir.Value) -> ir.Value | None:
    """The scalar at which the numbers of a block begin; None for 0."""
    return _start_and_range(x)[0]


def _start_and_range(x: ir.Value) -> tuple[ir.Value | None, ir.Value]:
    """What is added to all numbers of a block, and the numbers without it."""
    start: ir.Value | None = None
    while (op := maker(x)) is not None:
        if ExpandDims.matches(op) or op.name == arith.ExtSIOp.OPERATION_NAME:
            (x,) = op.operands
        elif start is None and op.name == arith.AddIOp.OPERATION_NAME and maker(op.operands[0], Splat) is not None:
            start, x = op.operands[0].owner.operands[0], op.operands[1]
        else:
            break
    return start, x


def _shorter(x: ir.Value) -> ir.Value | None:
    """A block without its last dim, of size 1, made anew, so that Triton knows what divides its elements; None where
    that takes other ops than positions are made of."""
    shape = tt.shape_of(x)[:-1]
    number = number_of(x)
    if number is not None:
        return tt.full(shape, tt.element_of(x), number)
    op = maker(x)
    if op is None:
        return None
    if ExpandDims.matches(op):
        if ExpandDims.axis.of(op) == len(shape):
            return op.operands[0]
        inner = _shorter(op.operands[0])
        return None if inner is None else tt.expand_dims(inner, ExpandDims.axis.of(op))
    if Splat.matches(op):
        return tt.splat(op.operands[0], shape)
    if op.name not in _MADE_ANEW:
        return None
    operands = [_shorter(y) for y in op.operands]
    if any(y is None for y in operands):
        return None
    known = [y for y in operands if y is not None]
    if Broadcast.matches(op):
        return tt.broadcast(known[0], shape)
    return arith.addi(*known) if op.name == arith.AddIOp.OPERATION_NAME else arith.muli(*known)
