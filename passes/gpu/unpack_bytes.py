"""Makes floats of bytes, and of halves of bytes, with one instruction each on NVIDIA's GPUs.

    %0 = arith.andi %b, 15                                 %t = %b & 0x0F0F0F0F             four bytes at once
    %1 = arith.extui %0 : i8 to i32                   →    %3 = prmt %t, 0x43000000         128 + a byte, for each
    %2 = bitcast(%1 ^ 2^23 as f32) - 2^23
    %3 = arith.addf %2, 128

A product by a quantised weight does this for each element, and is bound by it: a byte is taken out of its word, put
into the bits of a float, and the float's own value is subtracted. `prmt` picks the four bytes of its result from those
of two words: it does the first two at once, and where the sum wants 128 more (products/quantised.py), a half of a byte
needs nothing else, as its bits lie just where those of 128.0 are 0.

A vector that all rows of the weight are multiplied by is laid out among the threads as the bytes are, as it is where
widen-float8 made floats of them: Triton would lay out the floats that were made of them as the vector is.
"""

from __future__ import annotations

import math

from cuesta._mlir import arith, ir
from cuesta.dialects import maker, ops_named, tt
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.dialects.tt.instructions import BYTE, HIGH_HALF, LOW_HALF, SIGNED_BYTE, ElementwiseInlineAsm, per_byte
from cuesta.dialects.tt.ops import Bitcast
from cuesta.dialects.tt.repeated import number_of, unrepeated
from cuesta.passes.infra.registry import Pass, register_pass

#: 2^23 as f32, whose last bit is worth 1, and its bits: see linalg_to_tt/narrow_math.py.
_UNIT, _UNIT_BITS = float(1 << 23), 0x4B000000
#: How much higher than their value halves of bytes are wanted, and the least elements of a block: a thread has four.
_HIGHER, _LEAST = 128.0, 4 * 32


@register_pass("unpack-bytes")
class UnpackBytes(Pass):
    """Writes conversions of bytes to floats as instructions of NVIDIA's GPUs."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        with module.context, ir.Location.unknown():
            kernels = [view.operation for nested in kernel_modules(module) for view in nested.body.operations]
            for kernel in kernels:
                for op in ops_named(kernel, [arith.SubFOp.OPERATION_NAME]):
                    _rewrite(op)
                if ops_named(kernel, [ElementwiseInlineAsm.OPERATION_NAME]):
                    for op in ops_named(kernel, [tt.Broadcast.OPERATION_NAME]):
                        _lay_out_anew(op)


def _rewrite(op: ir.Operation) -> None:
    """Replaces the difference that ends a conversion of a block of bytes, and sums of it."""
    found = _byte(op)
    if found is None:
        return
    byte, is_signed = found
    if not is_signed and (half := _half(byte)) is not None:
        for reader in [use.owner.operation for use in op.results[0].uses]:
            if reader.name == arith.AddFOp.OPERATION_NAME and _HIGHER in map(number_of, reader.operands):
                with ir.InsertionPoint(reader), reader.location:
                    reader.results[0].replace_all_uses_with(per_byte(*half))
                reader.erase()
    with ir.InsertionPoint(op), op.location:
        moved = per_byte(byte, SIGNED_BYTE if is_signed else BYTE)
        kind = ir.DenseElementsAttr.get_splat(moved.type, ir.FloatAttr.get_f32(_UNIT + 128 * is_signed))
        exact = arith.subf(moved, arith.ConstantOp(moved.type, kind).result)
    op.results[0].replace_all_uses_with(exact)
    op.erase()


def _lay_out_anew(op: ir.Operation) -> None:
    """Takes away and adds the dim of a block along which it is repeated: of that Triton can tell no layout from the
    operand's, and takes the one of the op that reads it."""
    (x,) = op.operands
    shape, wide = list(tt.shape_of(x)), tt.shape_of(op.results[0])
    axes = [axis for axis, size in enumerate(shape) if size < wide[axis]]
    # Not so of positions: addresses would no longer be known to lie side by side.
    is_float = isinstance(tt.element_of(x), ir.FloatType)
    if is_float and len(axes) == 1 and math.prod(shape) >= _LEAST and number_of(x) is None:
        with ir.InsertionPoint(op), op.location:
            rest = [size for axis, size in enumerate(shape) if axis not in axes]
            op.operands[0] = tt.expand_dims(tt.reshape(x, rest), axes[0])


def _byte(op: ir.Operation) -> tuple[ir.Value, bool] | None:
    """The block of bytes that becomes f32 with the difference `op`, and whether the bytes are signed."""
    bits, less = op.operands
    cast = maker(unrepeated(bits), Bitcast)
    turned = maker(unrepeated(cast.operands[0]), arith.XOrIOp) if cast is not None else None
    wide = maker(unrepeated(turned.operands[0]), arith.ExtUIOp) if turned is not None else None
    if wide is None or turned is None or str(tt.element_of(wide.operands[0])) != "i8":
        return None
    if str(tt.element_of(bits)) != "f32" or math.prod(tt.shape_of(bits)) < _LEAST:
        return None
    for more in (0, 128):
        if number_of(less) == _UNIT + more and number_of(turned.operands[1]) == _UNIT_BITS | more:
            return wide.operands[0], more > 0
    return None


def _half(x: ir.Value) -> tuple[ir.Value, str] | None:
    """The bytes whose lower or upper halves a block is, and which."""
    for kind, by, which in ((arith.AndIOp, 15, LOW_HALF), (arith.ShRUIOp, 4, HIGH_HALF)):
        op = maker(unrepeated(x), kind)
        if op is not None and number_of(op.operands[1]) == by:
            return op.operands[0], which
    return None
