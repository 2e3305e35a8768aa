"""Estimates the bytes that a kernel moves between memory and a processor from its ops.

An argument counts once if it is read and once if it is written. A table that elements are gathered from counts at most
the elements gathered. A block that is loaded again, in a transpose or a matrix product, counts once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cuesta._mlir import ir, linalg, tensor
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import destination_of, kernel_modules
from cuesta.dialects.types import byte_size, memref_shape, spelled
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.sizes import estimate


def kernel_functions(module: ir.Module) -> dict[str, ir.Operation]:
    """The kernels of a module by name."""
    nested = kernel_modules(module)
    return {function.name.value: function.operation for each in nested for function in functions(each)}


def launch_bytes(launch: ir.Operation, kernel: ir.Operation | None) -> int:
    """Bytes that a host.launch reads and writes. Without the kernel as linalg ops, the bytes of its operands."""
    sizes = [_span(operand) for operand in launch.operands]
    if kernel is None:
        return sum(sizes)
    arguments = list(kernel.regions[0].blocks[0].arguments)[: len(sizes)]
    passes, gathered = _passes(kernel), _gathered(kernel)
    total = 0
    for argument, size in zip(arguments, sizes, strict=True):
        if argument in gathered:
            total += min(size, gathered[argument])
        total += size * (passes.get(argument, 0) or argument not in gathered)
    return total


def _passes(kernel: ir.Operation) -> dict[ir.Value, int]:
    """How often each argument's memory is traversed: 1 if it is read, plus 1 if it is written."""
    read: set[ir.Value] = set()
    written: set[ir.Value] = set()
    for view in kernel.regions[0].blocks[0].operations:
        op = view.operation
        if op.name.startswith("linalg.") and op.name != linalg.FillOp.OPERATION_NAME:
            count = len(op.results)
            given, inits = list(op.operands)[:-count], list(op.operands)[-count:]
            read |= {value for value in given if isinstance(value.owner, ir.Block)}
            written |= {value for init in inits if (value := destination_of(init)) is not None}
    return {value: (value in read) + (value in written) for value in read | written}


def _gathered(kernel: ir.Operation) -> dict[ir.Value, int]:
    """The bytes that are gathered element by element from each argument."""
    found: dict[ir.Value, int] = {}
    for view in kernel.regions[0].blocks[0].operations:
        for inner in walk(view.operation):
            if inner.name == tensor.ExtractOp.OPERATION_NAME and isinstance(inner.operands[0].owner, ir.Block):
                taken = _elements(view.operation.results) * byte_size(spelled(inner.results[0].type))
                found[inner.operands[0]] = found.get(inner.operands[0], 0) + taken
    return found


def _elements(results: Sequence[ir.Value]) -> int:
    """How many elements a generic computes; more than any table has if the size is symbolic."""
    shapes = [ir.RankedTensorType(result.type) for result in results]
    return max((estimate(shape.shape) if shape.has_static_shape else sys.maxsize for shape in shapes), default=0)


def _span(operand: ir.Value) -> int:
    """The bytes that an operand of a kernel spans. Elements repeated by a stride of 0 count once."""
    sizes, strides = memref_shape(operand.type)
    elements = estimate(size for size, stride in zip(sizes, strides, strict=True) if stride != 0)
    return elements * byte_size(spelled(operand.type.element_type))
