"""Rewrites bf16 scalars and vectors as i16: conversions become integer arithmetic that rounds to nearest even, as torch
rounds, and kernels load and store i16.

%y = arith.extf %x : bf16 to f32      →      %0 = arith.extui %x : i16 to i32
                                             %y = bitcast (%0 << 16)

With AVX512-BF16, LLVM converts by an instruction that flushes denormals to zero, even after plain loads. LLVM also
fails to select instructions for copies of bf16 that it has vectorised itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from cuesta._mlir import arith, func, ir, rewrite, vector
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.upstream_fields import FUNCTION_TYPE
from cuesta.passes.infra.registry import Pass, register_pass

_NAN = 0x7FC0
#: Ops that convert integers to floats.
_FROM_INTEGERS = (arith.SIToFPOp.OPERATION_NAME, arith.UIToFPOp.OPERATION_NAME)
#: LLVM's own ops, such as the intrinsic that multiplies pairs of bf16, take bf16.
_LLVM = "llvm."
#: Ops that pass numbers on unchanged.
_MOVES = (
    *("affine.", "memref.", "scf.", "func.", "arith.select", "arith.constant", "arith.bitcast"),
    *(f"vector.{name}" for name in ("load", "store", "maskedload", "maskedstore", "broadcast", "shuffle")),
)


@register_pass("expand-bf16")
class ExpandBf16(Pass):
    """Expands conversions of bf16 into integer arithmetic, and makes kernels hold bf16 as i16."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            patterns = rewrite.RewritePatternSet()
            patterns.add(arith.ExtFOp, _rewrite(lambda op: op.operands[0].type, extend))
            patterns.add(arith.TruncFOp, _rewrite(lambda op: op.results[0].type, truncate))
            rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp) and not function.is_external and _has_bf16(function):
                        _hold_as_integers(function)


def extend(x: ir.Value, target: ir.Type) -> ir.Value:
    """Converts bf16 to f32 or f64: its bits are the upper half of an f32."""
    i16, i32, f32 = _words(x.type)
    bits = arith.extui(i32, arith.bitcast(i16, x))
    wide = arith.bitcast(f32, arith.shli(bits, _constant(i32, 16)))
    return wide if wide.type == target else arith.extf(target, wide)


def truncate(x: ir.Value, target: ir.Type) -> ir.Value:
    """Converts f32 or f64 to bf16. f64 is rounded to f32 first, as in torch."""
    i16, i32, f32 = _words(target)
    x = x if x.type == f32 else arith.truncf(f32, x)
    bits = arith.bitcast(i32, x)
    sixteen = _constant(i32, 16)
    if _is_exact(x):
        return arith.bitcast(target, arith.trunci(i16, arith.shrui(bits, sixteen)))
    # Adds half of the last bit that stays, minus one unless that bit is odd, so that ties go to even.
    odd = arith.andi(arith.shrui(bits, sixteen), _constant(i32, 1))
    rounded = arith.addi(bits, arith.addi(odd, _constant(i32, 0x7FFF)))
    upper = arith.trunci(i16, arith.shrui(rounded, sixteen))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, x, x)
    return arith.bitcast(target, arith.select(is_nan, _constant(i16, _NAN), upper))


def _is_exact(x: ir.Value) -> bool:
    """Whether x comes from an integer of at most 8 bits, so that rounding to bf16 would change nothing."""
    if isinstance(x.owner, ir.Block) or x.owner.name not in _FROM_INTEGERS:
        return False
    return _element(x.owner.operands[0].type).width <= 8


def _words(kind: ir.Type) -> tuple[ir.Type, ir.Type, ir.Type]:
    """i16, i32 and f32; vectors of these if `kind` is a vector."""
    words = ir.IntegerType.get_signless(16), ir.IntegerType.get_signless(32), ir.F32Type.get()
    if not isinstance(kind, ir.VectorType):
        return words
    shape = kind.shape
    first, second, third = (ir.VectorType.get(shape, word) for word in words)
    return first, second, third


def _element(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.VectorType) else kind


def _constant(kind: ir.Type, number: int) -> ir.Value:
    value = ir.IntegerAttr.get(_element(kind), number)
    is_vector = isinstance(kind, ir.VectorType)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, value) if is_vector else value).result


def _rewrite(
    narrow: Callable[[ir.OpView], ir.Type], convert: Callable[[ir.Value, ir.Type], ir.Value]
) -> Callable[[ir.OpView, rewrite.PatternRewriter], bool]:
    """The rewrite pattern for conversions whose narrow type is bf16; returns True, "no match", for other ops."""
    bf16 = ir.BF16Type.get()

    def expand(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        if _element(narrow(op)) != bf16:
            return True
        with rewriter.ip, op.location:
            value = convert(op.operands[0], op.results[0].type)
        rewriter.replace_op(op, [value])
        return False

    return expand


def _has_bf16(function: func.FuncOp) -> bool:
    """Whether any value of the function is a bf16, or a memref or vector of bf16."""
    kinds: set[ir.Type] = set()
    for op in [function.operation, *walk(function.operation)]:
        kinds.update(result.type for result in op.results)
        kinds.update(argument.type for region in op.regions for block in region.blocks for argument in block.arguments)
    return any(_as_integer(kind) != kind for kind in kinds)


def _hold_as_integers(function: func.FuncOp) -> None:
    """Gives every bf16 of the function the type i16. Ops that still compute on bf16 compute in f32."""
    bf16 = ir.BF16Type.get()
    for op in list(walk(function.operation)):
        if op.name.startswith(_LLVM):
            _take_as_floats(op)
        if op.name.startswith((*_MOVES, _LLVM)):
            continue
        with ir.InsertionPoint(op), op.location:
            for i, x in enumerate(op.operands):
                if _element(x.type) == bf16:
                    op.operands[i] = extend(x, _words(x.type)[2])
        for result in op.results:
            if _element(result.type) == bf16:
                narrow = result.type
                result.set_type(_words(narrow)[2])
                _truncate_behind(op, result, narrow)
    for op in [function.operation, *walk(function.operation)]:
        _retype(op)
    kinds = FUNCTION_TYPE.of(function)
    retyped = [[_as_integer(kind) for kind in side] for side in (kinds.inputs, kinds.results)]
    FUNCTION_TYPE.put(function, ir.FunctionType.get(*retyped))


def _take_as_floats(op: ir.Operation) -> None:
    """Has an op take its operands of bf16 as such, from what will hold them as i16."""
    for i, x in enumerate(op.operands):
        if _element(x.type) == ir.BF16Type.get():
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = ir.Operation.create("llvm.bitcast", results=[x.type], operands=[x]).results[0]


def _truncate_behind(op: ir.Operation, result: ir.Value, kind: ir.Type) -> None:
    """Rounds `result`, which is f32, to bf16 of type `kind` for its users."""
    uses = [(use.owner, use.operand_number) for use in result.uses]
    with ir.InsertionPoint.after(op), op.location:
        narrow = truncate(result, kind)
    for user, i in uses:
        user.operands[i] = narrow


def _retype(op: ir.Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                argument.set_type(_as_integer(argument.type))
    if op.name == arith.ConstantOp.OPERATION_NAME and _as_integer(kind := op.results[0].type) != kind:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_constant_bits(op.attributes["value"]))
        op.erase()
        return
    if op.name.startswith(_LLVM):
        return
    for result in op.results:
        result.set_type(_as_integer(result.type))
    if op.name == arith.BitcastOp.OPERATION_NAME and op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _constant_bits(number: ir.Attribute) -> ir.Value:
    """A constant bf16 scalar or splat vector, as i16."""
    is_vector = isinstance(number.type, ir.VectorType)
    scalar = number.get_splat_value() if is_vector else number
    (word,) = struct.unpack("<I", struct.pack("<f", scalar.value))
    bits = _constant(ir.IntegerType.get_signless(16), word >> 16)
    return vector.broadcast(_as_integer(number.type), bits) if is_vector else bits


def _as_integer(kind: ir.Type) -> ir.Type:
    """`kind` with i16 in place of bf16, also as the element of a memref or vector."""
    bf16, i16 = ir.BF16Type.get(), ir.IntegerType.get_signless(16)
    if kind == bf16:
        return i16
    if isinstance(kind, ir.MemRefType) and kind.element_type == bf16:
        return ir.MemRefType.get(kind.shape, i16, kind.layout, kind.memory_space)
    if isinstance(kind, ir.VectorType) and kind.element_type == bf16:
        return ir.VectorType.get(kind.shape, i16)
    return kind
