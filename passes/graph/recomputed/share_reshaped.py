"""Computes once what is computed in two shapes, where its readers would read more than that.

    %2 = cuesta.add(%0, %1)              : 8x64          %3 = cuesta.add(reshape(%0), reshape(%1))    : 8x4x16
    %3 = cuesta.add(reshape(%0), reshape(%1))     →      %2 = cuesta.reshape(%3)                      : 8x64
    %4 = cuesta.sum(%3)                  : 8x4           %4 = cuesta.sum(%3)                          : 8x4

A reduction that is split reads its operand in other dims than the operand's other readers, and hoist-reshapes moves the
reshape above cheap ops, which are then computed in both shapes. That costs nothing where their operands are read
anyway. A residual network's gradient of an image is a sum of two tensors under a mask: the norm's sums read all three,
what comes after the sums would read them again, and so would the next block. With this pass the kernel of the sums
writes the gradient, and the others read it.

Where a call reads the value in any case, and one of the operands would be written for the reduction alone, such as rows
that are read at computed positions, the reduction reads the value.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import aten, maker
from cuesta.dialects.cuesta import indexing, reduction
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
#: Ops that read at computed positions: their result is in memory only where something other than kernels reads it.
_AT_POSITIONS = names_of(indexing.Gather, indexing.Index)


@dataclass(frozen=True)
class _Twin:
    """A value that is computed in other dims than `whole` is. `ops` compute it, in order, from reshapes of `leaves`.
    `broadcasts`: some of these are factors, of other elements than the value."""

    whole: ir.Value
    ops: dict[ir.Operation, None]
    leaves: frozenset[ir.Value]
    broadcasts: bool = False


@register_pass("share-reshaped")
@dataclass(frozen=True)
class ShareReshaped(Pass):
    """Computes once what is computed in two shapes."""

    #: The most bytes of a tensor that is not worth sharing.
    small: int = 1 << 16

    def run(self, module: ir.Module) -> None:
        for function in functions(module):
            for value, twin in _twins(function).items():
                if byte_count(value) <= self.small or not _is_reduced(value):
                    continue
                if _is_there(twin):
                    with ir.InsertionPoint(value.owner), value.owner.location:
                        value.replace_all_uses_with(_B.reshape(twin.whole, shape_of(value)))
                elif _pays(twin):
                    _share(value, twin)
        erase_dead(module)


def _twins(function: func.FuncOp) -> dict[ir.Value, _Twin]:
    """The values that pointwise ops compute from reshaped tensors as others do from the tensors themselves."""
    found: dict[ir.Value, _Twin] = {}
    for view in function.regions[0].blocks[0].operations:
        op = view.operation
        if Reshape.matches(op):
            found[op.results[0]] = _Twin(op.operands[0], {op: None}, frozenset(op.operands))
        elif op.name in POINTWISE and (twin := _twin(op, found)) is not None:
            found[op.results[0]] = twin
    return {value: twin for value, twin in found.items() if len(twin.ops) > 1}


def _twin(op: ir.Operation, known: Mapping[ir.Value, _Twin]) -> _Twin | None:
    """What computes the same from the tensors that an op reads reshaped; None if nothing does."""
    (result,) = op.results
    reshaped = [known[x] for x in op.operands if x in known]
    full = [known[x].whole for x in op.operands if x in known and shape_of(x) == shape_of(result)]
    if not full or any(x not in known and shape_of(x) != () for x in op.operands):
        return None
    for other in users(full[0]):
        if (
            other.name == op.name
            and dict(other.attributes.items()) == dict(op.attributes.items())
            and len(other.operands) == len(op.operands)
            and all(
                _is_same(x, result, y, other.results[0], known)
                for x, y in zip(op.operands, other.operands, strict=True)
            )
        ):
            ops = {part: None for twin in reshaped for part in twin.ops} | {op: None}
            leaves = frozenset[ir.Value]().union(*(twin.leaves for twin in reshaped))
            factors = [twin for twin in reshaped if shape_of(twin.whole) not in ((), shape_of(other.results[0]))]
            broadcasts = bool(factors) or any(twin.broadcasts for twin in reshaped)
            return _Twin(other.results[0], ops, leaves, broadcasts)
    return None


def _is_same(x: ir.Value, of: ir.Value, y: ir.Value, whole: ir.Value, known: Mapping[ir.Value, _Twin]) -> bool:
    """Whether an operand `x`, from which `of` is computed, is the operand `y` of `whole` in other dims."""
    if x not in known:
        return x == y
    same = unreshaped(known[x].whole) == unreshaped(y)
    return same and _varied(shape_of(x), shape_of(of)) == _varied(shape_of(y), shape_of(whole))


def _varied(factor: Sequence[Number], sizes: Sequence[Number]) -> list[tuple[Number, Number]]:
    """Along which of a tensor's elements an operand that broadcasts to it differs: ranges of strides, joined where they
    meet. They are the same in all shapes of the two whose dims have the same elements."""
    found: list[tuple[Number, Number]] = []
    stride: Number = 1
    for own, size in itertools.zip_longest(reversed(factor), reversed(sizes), fillvalue=1):
        if own != 1 and found and found[-1][1] == stride:
            found[-1] = (found[-1][0], stride * size)
        elif own != 1:
            found.append((stride, stride * size))
        stride *= size
    return found


def _is_reduced(value: ir.Value) -> bool:
    """Whether pointwise ops lead from a value to a reduction, whose kernel computes the value."""
    pending, seen = [value], set[ir.Operation]()
    while pending:
        for user in users(pending.pop()):
            if reduction.row_of(user) is not None:
                return True
            if user.name in POINTWISE and user not in seen:
                seen.add(user)
                pending += user.results
    return False


def _is_there(twin: _Twin) -> bool:
    """Whether a call reads the value in any case, while the rows at computed positions that it is computed from would
    be written for the reduction alone, and are no smaller than the value."""
    is_read = any(aten.Call.matches(user) for user in users(twin.whole))
    written = [leaf for leaf in twin.leaves if (op := maker(leaf)) is not None and op.name in _AT_POSITIONS]
    return is_read and sum(map(byte_count, written)) >= byte_count(twin.whole)


def _pays(twin: _Twin) -> bool:
    """Whether to compute the value for each of its readers reads more than to write it once and read it. With factors,
    as in the gradient of a norm, a reader also reads the tensor that the factors are those of."""
    if twin.broadcasts:
        return False
    op = twin.whole.owner.operation
    if Convert.matches(op) and byte_count(twin.whole) >= byte_count(op.operands[0]):
        return False  # each reader widens for itself
    readers = len({*users(twin.whole)})
    computed = readers * sum(byte_count(leaf) for leaf in twin.leaves)
    return readers > 0 and computed > (readers + 1) * byte_count(twin.whole)


def _share(value: ir.Value, twin: _Twin) -> None:
    """Replaces the value in the dims that it was traced with by a reshape of its twin."""
    maker = twin.whole.owner.operation
    for op in twin.ops:
        if maker.is_before_in_block(op):
            op.move_before(maker)
    with ir.InsertionPoint(maker), maker.location:
        twin.whole.replace_all_uses_with(_B.reshape(value, shape_of(twin.whole)))
