"""Widens floats of 8 bits, which are stored as bytes, by their bits: half precision has their fields and more.

    f8E5M2      s eeeee mm      the upper half of an f16
    f8E4M3FN    s eeee mmm      in an f16's fields it is 2^-8 of its value, as the exponents' biases are 7 and 15

Numbers below the normal ones come out right, because an f16 has such numbers too. All bits of an f8E4M3FN but the sign
are 1 for NaN; it has no infinity (Micikevicius et al. 2022, https://arxiv.org/abs/2209.05433).
"""

from __future__ import annotations

import math

from cuesta._mlir import arith, ir
from cuesta.dialects.scalar import Scalar, Value
from cuesta.runtime.dtypes import WIDENED


def is_float8(spelling: str) -> bool:
    """Whether values of this type are floats of 8 bits."""
    return spelling in WIDENED


def widen_float8(s: Scalar, stored: Value, spelling: str) -> Value:
    """The f32 that a stored byte of type `spelling` stands for."""
    half, f16, f32 = ir.IntegerType.get_signless(16), ir.F16Type.get(), ir.F32Type.get()
    if spelling == "f8E5M2":
        bits = arith.shli(arith.extui(half, stored), s.const(half, 8))
        return arith.extf(f32, arith.bitcast(f16, bits))
    # The sign is in bits 7 to 15: it may stay in the last of them only.
    moved = arith.shli(arith.extsi(half, stored), s.const(half, 7))
    bits = arith.andi(moved, s.const(half, 0xBFFF))
    value = arith.mulf(arith.extf(f32, arith.bitcast(f16, bits)), s.const(f32, 256.0))
    magnitude = arith.andi(stored, s.const(stored, 0x7F))
    return s.select(s.compare("eq", magnitude, s.const(stored, 0x7F)), s.const(f32, math.nan), value)
