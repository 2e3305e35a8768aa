"""Accumulates sums that are strided in memory in a contiguous buffer, and copies them to their places at the end.

linalg.generic {addf}                             %sums = memref.alloca() : memref<120xf32>
  ins(%x : memref<98x120xf32>)              →     linalg.copy ins(%r) outs(%sums)
  outs(%r : memref<120xf32, strided<[25]>>)       linalg.generic {addf} ins(%x) outs(%sums)
                                                  linalg.copy ins(%sums) outs(%r)

The input is contiguous along vectors, and with the buffer the sums are too. This occurs if a sum is returned in another
memory order than its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import walk
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.named_linalg import copy, is_generic
from cuesta.dialects.types import memref_shape
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.lowering.linalg_to_loops.vector_loops import scratch
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import estimate

Value: TypeAlias = ir.Value

#: The most sums that stay in L1 together with the input.
_MOST = 1 << 11


@register_pass("sum-beside")
class SumBeside(Pass):
    """Accumulates strided sums in contiguous scratch memory."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        for op in [op for op in walk(function.operation) if _lies_apart(op)]:
                            _sum_beside(op, function.regions[0].blocks[0])


def _lies_apart(op: ir.Operation) -> bool:
    """Whether an op is a reduction that reads contiguous elements along the last dim of its strided result."""
    if not is_generic(op) or len(op.operands) < 2:
        return False
    maps = operand_dims(op)
    own, result = maps[-1], op.operands[-1]
    if len(list(op.results)) or not own or REDUCTION not in ITERATOR_TYPES.of(op):
        return False
    # In a kernel a symbolic size is `?`, whose marker `memref_shape` takes for a number. So check for `?` first.
    if not ir.MemRefType(result.type).has_static_shape:
        return False
    sizes, strides = memref_shape(result.type)
    if strides[-1] == 1 or sizes[-1] == 1 or estimate(sizes) > _MOST:
        return False
    inputs = zip(list(op.operands)[:-1], maps, strict=False)
    return any(_runs_along(x, dims, own[-1]) for x, dims in inputs)


def _runs_along(value: Value, dims: Sequence[int], loop: int) -> bool:
    """Whether the elements along a loop are contiguous."""
    if not isinstance(value.type, ir.MemRefType) or loop not in dims:
        return False
    _, strides = memref_shape(value.type)
    return strides[dims.index(loop)] == 1


def _sum_beside(op: ir.Operation, entry: ir.Block) -> None:
    result = op.operands[-1]
    own = ir.MemRefType(result.type)
    # At the beginning of the function, because an alloca in a loop grows the stack in each iteration.
    with ir.InsertionPoint.at_block_begin(entry), op.location:
        sums = scratch(own.shape, own.element_type)
    with ir.InsertionPoint(op), op.location:
        copy(result, sums)
    op.operands[len(op.operands) - 1] = sums
    block = op.operation.block
    following = [other.operation for other in block.operations]
    after = following[following.index(op) + 1]
    with ir.InsertionPoint(after), op.location:
        copy(sums, result)
