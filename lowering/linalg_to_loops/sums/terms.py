"""Answers questions about a generic that adds up terms: what it adds to its sum, and how its operands lie in memory."""

from __future__ import annotations

import math
from typing import TypeAlias

from cuesta._mlir import arith, ir
from cuesta.dialects import maker
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import memref_shape
from cuesta.lowering.linalg_to_loops.views import starts_of
from cuesta.policy.few_rows import MOST_COPIED

Value: TypeAlias = ir.Value

#: Ops that do to vectors what they do to numbers.
_ON_VECTORS = "arith."


def term_of(op: ir.Operation) -> Value | None:
    """What a generic adds to its one result, a sum of f32; None for any other op."""
    block = op.regions[0].blocks[0]
    out = block.arguments[len(block.arguments) - 1]
    *_, end = block.operations
    if len(end.operands) != 1 or not isinstance(out.type, ir.F32Type) or len(op.operands) != len(block.arguments):
        return None
    total = maker(end.operands[0], arith.AddFOp)
    if total is None or sum(1 for _ in out.uses) != 1 or out not in list(total.operands):
        return None
    *ops, _ = body_ops(op)
    if any(not inner.name.startswith(_ON_VECTORS) or not inner.operands for inner in ops):
        return None
    (term,) = [x for x in total.operands if x != out]
    return term


def is_inside(x: Value, op: ir.Operation) -> bool:
    """Whether a value is computed in a generic's body."""
    return not isinstance(x.owner, ir.Block) and x.owner.operation.block == op.regions[0].blocks[0]


def belongs_to(x: Value, block: ir.Block) -> bool:
    """Whether a value is an argument of a block, or computed in it."""
    return (x.owner if isinstance(x.owner, ir.Block) else x.owner.operation.block) == block


def is_shared(x: Value) -> bool:
    """Whether an operand is the same for all tiles, and small."""
    kind = ir.MemRefType(x.type)
    if not isinstance(x.owner, ir.Block) or kind.rank == 0 or math.prod(kind.shape) > MOST_COPIED:
        return False
    # Nor is it written in the kernel: the copy is made before everything else.
    return all(is_generic(use.owner) and use.operand_number < len(use.owner.operands) - 1 for use in x.uses)


def is_dense(x: Value) -> bool:
    """Whether the last two dims of an operand follow one another without gaps."""
    shape, strides = memref_shape(x.type)
    return strides[-1] == 1 and strides[-2] == shape[-1]


def moving_dims(view: ir.Operation) -> list[int]:
    """The dims of a subview's source along which its place depends on the tile."""
    return [d for d, start in enumerate(starts_of(view)) if maker(start, arith.ConstantOp) is None]
