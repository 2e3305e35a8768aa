"""Finds the loops of a generic along which it walks a tensor that it reads at computed positions.

^bb0(%y: i64, %x: i64):      %y read along loop 1, %x along loop 2
  %c = linalg.index 0                                                  →   %image: [[1], [2], [0]]
  tensor.extract %image[index_cast(%y), index_cast(%x), %c]
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir, tensor
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.named_linalg import is_generic, is_index
from cuesta.dialects.upstream_fields import INDEX_DIM


def gathered(generic: ir.Operation) -> list[ir.Value]:
    """The tensors that a generic reads at computed positions, once for each read."""
    return [op.operands[0] for op in computed_reads(generic)]


def gathered_loops(generic: ir.Operation) -> list[tuple[ir.Value, list[list[int]]]]:
    """Each tensor that is read at computed positions, and for each of its dims the loops that the position depends
    on."""
    maps = operand_dims(generic)
    return [
        (op.operands[0], [_loops_behind(position, maps) for position in list(op.operands)[1:]])
        for op in computed_reads(generic)
    ]


def computed_reads(generic: ir.Operation) -> list[ir.Operation]:
    """The ops of a generic's body that read an element at computed positions."""
    return [op for op in body_ops(generic) if op.name == tensor.ExtractOp.OPERATION_NAME]


def walked(loops: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """The loops of a tensor's dims, slowest first, if `order` is the memory order of its dims."""
    return list(dict.fromkeys(loop for dim in order for loop in loops[dim]))


def _loops_behind(position: ir.Value, maps: Sequence[Sequence[int]]) -> list[int]:
    found: dict[int, None] = {}
    pending, seen = [position], set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            if not is_generic(value.owner.owner):
                continue  # a size, which the kernel is passed
            found.update(dict.fromkeys(maps[ir.BlockArgument(value).arg_number]))
        elif is_index(value.owner):
            found[INDEX_DIM.of(value.owner)] = None
        else:
            pending += list(value.owner.operands)
    return sorted(found)
