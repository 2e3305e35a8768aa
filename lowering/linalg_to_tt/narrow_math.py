"""Provides mathematics that is cheaper than the instruction or the function of the same name.

Bytes become floats by their bits: a GPU converts integers at a small part of the rate at which it adds, and a product
by a quantised weight converts each of its elements. The result is exact. Triton does so for signed bytes and bf16.

For what is computed from narrow floats, and rounded to them, there is an erf with an error of at most 2^-19.
libdevice's erff chooses between two polynomials by selecting every coefficient. With it, gelu of bf16 is bound by
arithmetic (38 µs for 25 million elements on an H200; the memory traffic takes 21 µs). tanh, with an error of at most
2^-17 of its value, is a logistic function, which has instructions. What is divided by a constant is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cuesta._mlir import arith, ir, math
from cuesta.dialects import tt
from cuesta.dialects.tt.repeated import reciprocal_of
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.dialects.types import byte_size, is_float, spelled
from cuesta.lowering.linalg_to_tt.frame import Value

# erf(x) / x as P(x^2) / Q(x^2) for x^2 <= 15.37, where erf(x) rounds to 1. Fitted to the relative error and scaled by
# 1 + 2^-20, so that the result at the end of the interval is at least 1 despite rounding. The result is clamped to
# [-1, 1], because gelu multiplies the remainder of 1 + erf(x) by numbers of any size.
_P = (1.1283801, 0.19040711, 0.052748782, 0.0037656218, 2.8487973e-4, 2.0500448e-6)
_Q = (1.0, 0.50207651, 0.11410926, 0.014969227, 0.0011625293, 3.8091082e-5)
_LAST_SQUARE = 15.3664


# tanh(x) as x + x^3 (A + B x^2) where |x| is less than _SMALL: 2 / (1 + exp(-2x)) - 1 loses the last bits of its value.
_A, _B = -0.33326135, 0.12915056
_SMALL = 0.25

#: 2^23 as f32, whose last bit is worth 1: with a byte in its last bits it is 2^23 more than the byte.
_UNIT, _UNIT_BITS = float(1 << 23), 0x4B000000


def are_narrow(kinds: Iterable[ir.Type]) -> bool:
    """Whether there are floats among the types, of 16 bits at most."""
    floats = [text for text in map(spelled, kinds) if is_float(text)]
    return bool(floats) and max(map(byte_size, floats)) <= 2


def takes_bytes(x: Value, kind: ir.Type, signed: bool) -> bool:
    """Whether `float_of_byte` makes a block of type `kind` of a block."""
    return str(element_of(x)) == "i8" and str(element_of(kind)) in (("f32",) if signed else ("f32", "bf16"))


def float_of_byte(x: Value, kind: ir.Type, signed: bool) -> Value:
    """A block of bytes, 0 … 255, or -128 … 127 if `signed`, as f32 or bf16, both of which hold each of them."""
    i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
    bits = arith.extui(tt.block_type(shape_of(x), i32), x)
    # With its first bit turned, a signed byte is 128 more than it was, from 0 on.
    more = 128 if signed else 0
    number = tt.bitcast(arith.xori(bits, _like(bits, _UNIT_BITS | more)), f32)
    number = arith.subf(number, _like(number, _UNIT + more))
    if kind == f32:
        return number
    # The last 16 bits of such a small integer are 0: bf16 is the first half.
    upper = arith.shrui(tt.bitcast(number, i32), _like(bits, 16))
    return tt.bitcast(arith.trunci(tt.block_type(shape_of(x), ir.IntegerType.get_signless(16)), upper), kind)


def erf(x: Value) -> Value:
    """erf of a block of f32."""
    square = arith.minimumf(arith.mulf(x, x), _like(x, _LAST_SQUARE))
    # Multiplying twice by the reciprocal of the root takes three instructions; a division takes eight.
    root = math.rsqrt(_polynomial(square, _Q))
    near = arith.mulf(arith.mulf(x, _polynomial(square, _P)), arith.mulf(root, root))
    return arith.maximumf(arith.minimumf(near, _like(x, 1)), _like(x, -1))


def tanh(x: Value) -> Value:
    """tanh of a block of f32."""
    zero, one, two = (_like(x, number) for number in (0, 1, 2))
    power = math.exp(arith.subf(zero, arith.mulf(x, two)))
    far = math.fma(arith.divf(one, arith.addf(one, power)), two, _like(x, -1))
    square = arith.mulf(x, x)
    near = math.fma(arith.mulf(x, square), _polynomial(square, (_A, _B)), x)
    is_near = arith.cmpf(arith.CmpFPredicate.OLT, square, _like(x, _SMALL * _SMALL))
    return arith.select(is_near, near, far)


def quotient(x: Value, y: Value) -> Value:
    """x / y of blocks of f32."""
    reciprocal = reciprocal_of(y)
    return arith.divf(x, y) if reciprocal is None else arith.mulf(x, _like(x, reciprocal))


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    *rest, value = (_like(x, c) for c in coefficients)
    for c in reversed(rest):
        value = math.fma(value, x, c)
    return value


def _like(x: Value, number: float) -> Value:
    return tt.full(shape_of(x), element_of(x), number)
