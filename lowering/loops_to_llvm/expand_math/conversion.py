"""Defines float-to-integer conversions for values out of range: the least integer, as on x86, for NaN, infinities and
large numbers.

    %i = arith.fptosi %x : f32 to i32      →      %0 = arith.fptosi %x : f32 to i32
                                                  %i = |%x| < 2^31 ? %0 : -2^31

In LLVM the result for such values is poison, and LLVM uses that for constants: a masked NaN became whatever a register
held. On x86 the select is a comparison and a masked conversion.
"""

from __future__ import annotations

from cuesta._mlir import arith, ir
from cuesta.dialects import walk
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, element_of


def define_conversions(b: Builder, module: ir.Module) -> None:
    """Guards each conversion of the module by a select, which gives the least integer for values out of range."""
    for op in [op for op in walk(module.operation) if op.name == arith.FPToSIOp.OPERATION_NAME]:
        (x,), kind = op.operands, op.results[0].type
        width = element_of(kind).width
        with ir.InsertionPoint(op), op.location:
            wide = x if element_of(x.type) in (b.f32, b.f64) else b.extend(x)
            holds = b.less(b.abs(wide), 2.0 ** (width - 1))
            chosen = b.select(holds, arith.FPToSIOp(kind, wide).result, -(2 ** (width - 1)))
        op.results[0].replace_all_uses_with(chosen)
        op.erase()
