"""Gives the buffers of a kernel their shapes, computed from the kernel's parameters.

    func @k(%x: memref<?x64xf32>, %p0: index)   →   func @k(%m: memref<f32>, %p0: index) {
                                                      %x = memref.reinterpret_cast %m to [%p0, 64], strides [64, 1]

A memref with a static shape is passed as an address alone. So are buffers of dynamic shape after this rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuesta._mlir import ir, memref
from cuesta.dialects.index_arithmetic import index_of
from cuesta.dialects.types import static, strided
from cuesta.sizes import Number, Size


def bind_shapes(entry: ir.Block, shapes: Iterable[list[list[Number]] | None], given: Mapping[str, ir.Value]) -> None:
    """Casts each argument to its shape: `shapes` has the argument's sizes and strides, in terms of the parameters
    `given`; None if its type states them."""
    first = entry.operations[0]
    for argument, shape in zip(entry.arguments, shapes, strict=False):
        if shape is None:
            continue
        kind = ir.MemRefType(argument.type)
        sizes, strides = shape
        argument.set_type(ir.MemRefType.get([], kind.element_type))
        with ir.InsertionPoint(first), first.operation.location:
            dynamic = [[index_of(n, given) for n in numbers if isinstance(n, Size)] for numbers in (sizes, strides)]
            known = [[static(n) for n in numbers] for numbers in (sizes, strides)]
            bound = ir.MemRefType.get(known[0], kind.element_type, layout=strided(strides))
            cast = memref.ReinterpretCastOp(bound, argument, [], *dynamic, [0], *known)
        argument.replace_all_uses_except(cast.result, cast.operation)
