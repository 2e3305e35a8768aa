"""Translates the body of a generic, whose ops work on scalars, to ops on blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cuesta._mlir import arith, ir, linalg, math, tensor
from cuesta.dialects import tt
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.kernel_fields import APART, IMPLIED
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.dialects.upstream_fields import PREDICATE
from cuesta.lowering.linalg_to_tt import narrow_math
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape
from cuesta.lowering.linalg_to_tt.positions import compared

#: Ops that Triton lacks → the function of libdevice and of ocml, without prefix and suffix.
_LIBRARY = {
    math.TanhOp.OPERATION_NAME: "tanh",
    math.TanOp.OPERATION_NAME: "tan",
    math.ExpM1Op.OPERATION_NAME: "expm1",
    math.Log1pOp.OPERATION_NAME: "log1p",
    math.Log10Op.OPERATION_NAME: "log10",
    math.PowFOp.OPERATION_NAME: "pow",
    math.RoundEvenOp.OPERATION_NAME: "rint",
    math.RoundOp.OPERATION_NAME: "round",
    math.TruncOp.OPERATION_NAME: "trunc",
    math.CopySignOp.OPERATION_NAME: "copysign",
    math.CbrtOp.OPERATION_NAME: "cbrt",
    math.ErfcOp.OPERATION_NAME: "erfc",
    math.AsinOp.OPERATION_NAME: "asin",
    math.AcosOp.OPERATION_NAME: "acos",
    math.AtanOp.OPERATION_NAME: "atan",
    math.Atan2Op.OPERATION_NAME: "atan2",
    math.SinhOp.OPERATION_NAME: "sinh",
    math.CoshOp.OPERATION_NAME: "cosh",
    math.AsinhOp.OPERATION_NAME: "asinh",
    math.AcoshOp.OPERATION_NAME: "acosh",
    math.AtanhOp.OPERATION_NAME: "atanh",
    arith.RemFOp.OPERATION_NAME: "fmod",
}

#: Conversions of integers to floats.
_FROM_INTEGERS = (arith.SIToFPOp.OPERATION_NAME, arith.UIToFPOp.OPERATION_NAME)
#: Ops that Triton only approximates in f32, while eager rounds them correctly. If 6 / 3 were a little less than 2, its
#: floor would be 1; if the mean of equal numbers differed from them, they would have a variance.
_ROUNDED: dict[str, Callable[..., Value]] = {
    arith.DivFOp.OPERATION_NAME: tt.precise_divf,
    math.SqrtOp.OPERATION_NAME: tt.precise_sqrt,
}
#: Ops that are computed in a cheaper way where all is rounded to narrow floats.
_NARROW: dict[str, Callable[..., Value]] = {
    math.ErfOp.OPERATION_NAME: narrow_math.erf,
    math.TanhOp.OPERATION_NAME: narrow_math.tanh,
    arith.DivFOp.OPERATION_NAME: narrow_math.quotient,
}


@dataclass
class Elementwise:
    """Evaluates bodies of generics in a frame."""

    frame: Frame
    library: str
    #: (the tensor that is read, positions, whether these are not known to follow one another) → its elements
    gather: Callable[[Value, list[Value], bool], Value]
    #: Whether all floats that the kernel, or this body alone, reads and writes have 16 bits at most.
    narrow: bool = False
    #: Comparisons whose result is known → that result.
    known: Mapping[ir.Operation, bool] = field(default_factory=dict)

    def run(self, ops: Iterable[ir.Operation], values: dict[Value, Value], classes: list[int]) -> None:
        """Adds the block of each result of a body's `ops` to `values`; `classes` are those of the generic's loops."""
        for op in ops:
            if op.name == linalg.YieldOp.OPERATION_NAME:
                return
            (result,) = op.results
            values[result] = self._one(op, values, classes)

    def _one(self, op: ir.Operation, values: dict[Value, Value], classes: list[int]) -> Value:
        match op.name:
            case linalg.IndexOp.OPERATION_NAME:
                return self.frame.positions[classes[op.attributes["dim"].value]]
            case arith.CmpIOp.OPERATION_NAME if op in self.known:
                return tt.full(self.frame.unit, op.results[0].type, self.known[op])
            case arith.SelectOp.OPERATION_NAME if IMPLIED.is_on(op):
                return values[op.operands[1]]
            case arith.ConstantOp.OPERATION_NAME:
                return self._constant(op)
            case tensor.ExtractOp.OPERATION_NAME:
                return self.gather(op.operands[0], [values[v] for v in list(op.operands)[1:]], APART.is_on(op))
            case arith.IndexCastOp.OPERATION_NAME:
                return self._cast(values[op.operands[0]], op.results[0].type)
            case arith.FloorDivSIOp.OPERATION_NAME:
                return _floor_division(*common_shape([values[v] for v in op.operands]))
            case arith.CmpIOp.OPERATION_NAME:
                predicate = arith.CmpIPredicate(PREDICATE.of(op))
                found = compared(self.frame, predicate, *(values[v] for v in op.operands))
                if found is not None:
                    return found
        operands = common_shape([values[v] for v in op.operands])
        kind = tt.block_type(shape_of(operands[0]), self._element(op.results[0].type))
        if op.name == arith.NegFOp.OPERATION_NAME:
            # Triton lacks it. A subtraction from -0 makes the negative of 0 -0.
            return arith.subf(tt.full(shape_of(operands[0]), element_of(operands[0]), -0.0), operands[0])
        if op.name == arith.BitcastOp.OPERATION_NAME:
            return tt.bitcast(operands[0], element_of(kind))
        is_signed = op.name == arith.SIToFPOp.OPERATION_NAME
        if op.name in _FROM_INTEGERS and narrow_math.takes_bytes(operands[0], kind, is_signed):
            return narrow_math.float_of_byte(operands[0], element_of(kind), is_signed)
        if op.name in _NARROW and str(element_of(operands[0])) == "f32" and self.narrow:
            return _NARROW[op.name](*operands)
        if op.name in _ROUNDED and str(element_of(operands[0])) == "f32" and not self.narrow:
            return _ROUNDED[op.name](*operands)
        if op.name in _LIBRARY:
            return tt.extern_elementwise(operands, kind, self._symbol(_LIBRARY[op.name], kind))
        return repeat_op(op, operands, kind).result

    def _element(self, kind: ir.Type) -> ir.Type:
        return self.frame.index_type if isinstance(kind, ir.IndexType) else kind

    def _constant(self, op: ir.Operation) -> Value:
        element = self._element(op.results[0].type)
        attribute = op.attributes["value"]
        if isinstance(op.results[0].type, ir.IndexType):
            attribute = ir.IntegerAttr.get(element, attribute.value)
        kind = tt.block_type(self.frame.unit, element)
        return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, attribute)).result

    def _cast(self, value: Value, target: ir.Type) -> Value:
        element = self._element(target)
        source = element_of(value)
        if source == element:
            return value
        kind = tt.block_type(shape_of(value), element)
        return arith.extsi(kind, value) if source.width < element.width else arith.trunci(kind, value)

    def _symbol(self, name: str, kind: ir.Type) -> str:
        double = str(element_of(kind)) == "f64"
        if self.library == "ocml":
            return f"__ocml_{name}_{'f64' if double else 'f32'}"
        return f"__nv_{name}" if double else f"__nv_{name}f"


def _floor_division(x: Value, y: Value) -> Value:
    """The quotient rounded down; Triton's own op rounds towards zero."""
    zero = tt.full(shape_of(x), element_of(x), 0)
    one = tt.full(shape_of(x), element_of(x), 1)
    quotient, rest = arith.divsi(x, y), arith.remsi(x, y)
    predicate = arith.CmpIPredicate
    inexact = arith.cmpi(predicate.ne, rest, zero)
    opposite = arith.xori(arith.cmpi(predicate.slt, x, zero), arith.cmpi(predicate.slt, y, zero))
    return arith.select(arith.andi(inexact, opposite), arith.subi(quotient, one), quotient)
