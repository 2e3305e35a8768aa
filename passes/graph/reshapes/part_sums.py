"""Reduces a tensor in the dims in which others read it, so that one kernel can do both.

    %1 = cuesta.sum(%0) {dims = [0]}     : 1024x384 → 384         %2 = cuesta.reshape(%0) : 64x16x384
    %2 = cuesta.reshape(%0)              : 64x16x384         →    %1 = cuesta.sum(%2) {dims = [0, 1]} : 384
    %3 = cuesta.sub(%2, %1)              : 64x16x384              %3 = cuesta.sub(%2, %1)

A batch norm of tokens is that of the rows of a matrix, while the block around it adds up and averages the tokens of
each image. One program then has all rows of a few columns, and it had them twice: as 1024 rows and as 64x16. That reads
memory twice, and Triton, which finds two layouts for what both parts compute, took that of the 1024 rows: a thread had
all 64x16 elements, and ptxas took minutes to spill them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.passes.analysis.runs import runs
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped, reshaped_operand
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("part-sums")
class PartSums(Pass):
    """Reduces a tensor in the dims in which others read it."""

    def run(self, module: ir.Module) -> None:
        for function in functions(module):
            ops = [view.operation for view in function.regions[0].blocks[0].operations]
            for op in [op for op in ops if Reshape.matches(op)]:
                if any(user.name in POINTWISE for user in users(op.results[0])):
                    _part(op.operands[0], shape_of(op.results[0]))


def _part(value: ir.Value, sizes: Sequence[Number]) -> None:
    """Reduces `value`, and what pointwise ops make of it, as a tensor of these sizes, if all reductions of it go over
    the dims that these part, and pointwise ops have no other reader."""
    shape = shape_of(value)
    parts = _parts(shape, sizes)
    readers = None if parts is None else _readers(value, sizes, {d for d, own in enumerate(parts) if len(own) > 1})
    if parts is None or not readers or not any(op.name in reduction.BY_OP_NAME for op in readers):
        return
    with ir.InsertionPoint(readers[0]), readers[0].location:
        parted = {value: _B.reshape(value, sizes)}
    for op in readers:
        (result,) = op.results
        with ir.InsertionPoint(op), op.location:
            if op.name in POINTWISE:
                operands = [parted.get(x) or _operand(x, shape, sizes) for x in op.operands]
                parted[result] = repeat_op(op, operands, tensor(sizes, spelling_of(result))).results[0]
            else:
                dims = [new for d in Reduced.dims.of(op) for new in parts[d]]
                name = reduction.BY_OP_NAME[op.name].name
                reduced = _B.reduce(name, parted[op.operands[0]], dims)
                result.replace_all_uses_with(_B.reshape(reduced, shape_of(result)))
    for op in reversed(readers):
        op.erase()


def _parts(old: Sequence[Number], new: Sequence[Number]) -> list[range] | None:
    """The dims of `new` that each dim of `old` is parted into, one or several; None where dims are merged, and where
    none is parted."""
    found = runs(old, new)
    if found is None or any(len(before) != 1 or not after for before, after in found):
        return None
    parts = [after for _, after in found]
    return parts if any(sum(new[d] != 1 for d in own) > 1 for own in parts) else None


def _readers(value: ir.Value, sizes: Sequence[Number], parted: set[int]) -> list[ir.Operation] | None:
    """The pointwise ops and the reductions over the `parted` dims that read a value, in order; None where others than
    calls and views read it, and where anything else reads what the pointwise ops compute."""
    found: dict[ir.Operation, None] = {}
    pending = [value]
    while pending:
        x = pending.pop()
        for user in users(x):
            if user.name in POINTWISE and _fits(user, x, sizes):
                if user not in found:
                    pending.append(user.results[0])
            elif user.name in reduction.BY_OP_NAME and parted <= set(Reduced.dims.of(user)):
                pass
            elif x == value and (user.name in VIEWS or not Cuesta.owns(user)):
                continue
            else:
                return None
            found[user] = None
    return sorted(found, key=functools.cmp_to_key(_order))


def _order(a: ir.Operation, b: ir.Operation) -> int:
    return -1 if a.is_before_in_block(b) else 1


def _fits(op: ir.Operation, value: ir.Value, sizes: Sequence[Number]) -> bool:
    """Whether a pointwise op of a value can compute as a tensor of these sizes, without a reshape between it and an op
    of ours that computes another of its operands."""
    shape = shape_of(value)
    if shape_of(op.results[0]) != shape:
        return False
    return all(
        reshaped_operand(shape_of(x), shape, sizes) is not None
        and (x == value or shape_of(x) != shape or not _is_computed(x))
        for x in op.operands
    )


def _is_computed(value: ir.Value) -> bool:
    op = maker(value)
    return op is not None and Cuesta.owns(op) and op.name not in VIEWS


def _operand(x: ir.Value, shape: Sequence[Number], sizes: Sequence[Number]) -> ir.Value:
    """An operand that broadcasts to `shape`, as one that broadcasts to `sizes`."""
    own = reshaped_operand(shape_of(x), shape, sizes)
    assert own is not None
    return x if shape_of(x) == () else reshaped(x, own)
