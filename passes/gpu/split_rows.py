"""Writes a kernel that walks a row in several dims, for readers that see the row so; a part of repeat-rows.

    func @norm(%x: tensor<2048xbf16>, …)              func @norm_2(%x: tensor<64x16x2xbf16>, …)
      %0 = linalg.generic {classes = [0]}      →        %0 = linalg.generic {classes = [0, 1, 2]}
           : tensor<2048xf32>                                : tensor<64x16x2xf32>

Such readers are products by a weight in groups, and by two values in a byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import arith, func, ir, linalg, tensor
from cuesta.dialects import walk
from cuesta.dialects.clones import clone_op
from cuesta.dialects.graph_function import argument_attributes, set_argument_attributes
from cuesta.dialects.kernel_fields import BUFFER_LAYOUT, CLASSES, PARALLEL, SIZES
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.upstream_fields import INDEXING_MAPS, ITERATOR_TYPES
from cuesta.sizes import Number

#: Ops of a kernel that walk nothing.
_WITHOUT_LOOPS = {op.OPERATION_NAME for op in (arith.ConstantOp, tensor.EmptyOp, linalg.FillOp, func.ReturnOp)}


def can_split(kernel: func.FuncOp, sizes: Sequence[Number]) -> bool:
    """Whether a kernel walks one row of as many elements as a block of `sizes` has, in memory without gaps, and does
    not compute with their positions."""
    length = math.prod(n for n in sizes if isinstance(n, int))
    if (
        not all(isinstance(n, int) for n in sizes)
        or SIZES.of(kernel) != [length]
        or any(BUFFER_LAYOUT.name in own for own in argument_attributes(kernel))
    ):
        return False
    (block,) = kernel.regions[0].blocks
    ops = [view.operation for view in block.operations]
    known = all(is_generic(op) or op.name in _WITHOUT_LOOPS for op in ops)
    shapes = [ir.RankedTensorType(x.type).shape for x in (*block.arguments, *(r for op in ops for r in _tensors(op)))]
    return known and not _counts(kernel) and all(shape in ([], [length]) for shape in shapes)


def split_row(kernel: func.FuncOp, sizes: Sequence[int], name: str) -> func.FuncOp:
    """A kernel that computes what `kernel` does, whose rows are blocks of `sizes`; `can_split` says whether there is
    one. It stands behind the other."""
    rank = len(sizes)

    def split(kind: ir.Type) -> ir.Type:
        is_row = isinstance(kind, ir.RankedTensorType) and kind.rank == 1
        return ir.RankedTensorType.get(list(sizes), kind.element_type) if is_row else kind

    with ir.InsertionPoint.after(kernel.operation), kernel.location:
        function = func.FuncOp(name, ([split(t) for t in kernel.type.inputs], [split(t) for t in kernel.type.results]))
        entry = function.add_entry_block()
    mapping = dict(zip(kernel.regions[0].blocks[0].arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for view in kernel.regions[0].blocks[0].operations:
            op = view.operation
            copy = clone_op(op, mapping, [split(result.type) for result in op.results])
            if is_generic(op) and CLASSES.of(op):
                kinds = ITERATOR_TYPES.of(op)
                ITERATOR_TYPES.put(copy, kinds * rank)
                CLASSES.put(copy, list(range(rank)))
                copy.attributes[INDEXING_MAPS.name] = ir.ArrayAttr.get([_map(op, x, rank) for x in op.operands])
    SIZES.put(function, list(sizes))
    PARALLEL.put(function, PARALLEL.of(kernel))
    set_argument_attributes(function, [{own.name: own.attr for own in each} for each in argument_attributes(kernel)])
    return function


def _map(op: ir.Operation, operand: ir.Value, rank: int) -> ir.AffineMapAttr:
    """How a generic with `rank` loops reads a row, or a single number."""
    dims = [ir.AffineDimExpr.get(d) for d in range(rank)]
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, dims if ir.RankedTensorType(operand.type).rank else []))


def _tensors(op: ir.Operation) -> list[ir.Value]:
    return [result for result in op.results if isinstance(result.type, ir.RankedTensorType)]


def _counts(kernel: func.FuncOp) -> bool:
    """Whether a body computes with its loop's index."""
    return any(op.name == linalg.IndexOp.OPERATION_NAME for op in walk(kernel.operation))
