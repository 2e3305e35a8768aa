"""Replaces sin, cos and tan of f64 by calls that LLVM's vectoriser widens: their inlined branch would prevent that.

    %y = math.sin %x : f64      →      %y = call @cuesta_sin(%x)

    func.func @cuesta_sin(%x: f64)                   with an attribute that names the vector variants
    func.func @cuesta_sin_8(%x: vector<8xf64>)       and a variant for vectors of four

The vector variants take their branch if any element needs it.
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta._mlir import func, ir, math
from cuesta.dialects import walk
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double import trigonometric

#: f64 in a vector of AVX2 and of AVX-512.
_WIDTHS = (4, 8)

BODIES: dict[type[ir.OpView], Callable[[Builder, Value], Value]] = {
    math.SinOp: trigonometric.sin,
    math.CosOp: trigonometric.cos,
    math.TanOp: trigonometric.tan,
}


def call_vector_functions(b: Builder, module: ir.Module) -> None:
    """Replaces the ops of BODIES on f64 scalars by calls, and defines the called functions in the ops' modules."""
    bodies = {kind.OPERATION_NAME: body for kind, body in BODIES.items()}
    for op in [op for op in walk(module.operation) if op.name in bodies and op.results[0].type == b.f64]:
        name = f"cuesta_{op.name.removeprefix('math.')}"
        _define(b, op, name, bodies[op.name])
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(func.call([b.f64], name, op.operands))
        op.erase()


def _define(b: Builder, op: ir.Operation, name: str, body: Callable[[Builder, Value], Value]) -> None:
    """Adds a function and its vector variants to the module around `op`, unless the module has them."""
    module = op.parent
    while module.name != "builtin.module":
        module = module.parent
    if name in ir.SymbolTable(module):
        return
    # LLVM's "Vector Function ABI": `name` for 8 elements is `name_8`.
    variants = ",".join(f"_ZGV_LLVM_N{width}v_{name}({name}_{width})" for width in _WIDTHS)
    kinds = {f"{name}_{width}": ir.VectorType.get([width], b.f64) for width in _WIDTHS}
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        for symbol, kind in {name: b.f64, **kinds}.items():
            function = func.FuncOp(symbol, ([kind], [kind]))
            function.attributes["llvm.readnone"] = ir.UnitAttr.get()
            extra = f', ["vector-function-abi-variant", "{variants}"]' if symbol == name else ""
            function.attributes["llvm.passthrough"] = ir.Attribute.parse(
                f'["noinline", "nounwind", "willreturn"{extra}]'
            )
            with ir.InsertionPoint(function.add_entry_block()):
                func.ReturnOp([body(b, function.arguments[0])])
