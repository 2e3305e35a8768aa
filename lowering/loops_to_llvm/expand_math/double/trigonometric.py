"""Computes sin, cos and tan of f64: reduces x modulo pi / 2 into two doubles, and evaluates polynomials for sine and
cosine.

pi / 2 in three doubles is precise enough below 2^38. For larger x, which is rare, a branch calls libm. So these
functions are bodies for vector_functions.py.
"""

from __future__ import annotations

from cuesta._mlir import ir, scf
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double.exponential import MAGIC
from cuesta.lowering.loops_to_llvm.expand_math.double.sums import exact_sum

_LARGE = 2.0**38
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_SIGN = 0x8000000000000000

# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 in powers of r^2 on |r| <= pi / 4: 2^-57.9 of the sine,
# 2^-63.9 of the cosine.
_SIN = (
    1.5895433240512982e-10,
    -2.5050734388773593e-08,
    2.7557313538513577e-06,
    -0.0001984126982935853,
    0.00833333333332184,
    -0.1666666666666663,
)
_COS = (
    -1.1358740900010952e-11,
    2.0875705253582435e-09,
    -2.7557314216158206e-07,
    2.4801587288999762e-05,
    -0.001388888888887334,
    0.041666666666666595,
)


def _reduce(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """(r, low, an i64 with n in its low bits), where r + low = x - n pi / 2 for the nearest n.

    The difference of x and the first of three products with parts of pi / 2 is exact.
    """
    shifted = b.fma(x, _TWO_OVER_PI, MAGIC)
    n = b.sub(shifted, MAGIC)
    first = b.fma(n, -_HALF_PI[0], x)
    second = b.mul(n, -_HALF_PI[1])
    r, lost = exact_sum(b, first, second)
    low = b.add(lost, b.fma(n, -_HALF_PI[1], b.neg(second)))
    return r, b.fma(n, -_HALF_PI[2], low), b.bits(shifted)


def _sine(b: Builder, r: Value, low: Value) -> Value:
    square = b.mul(r, r)
    y = b.add(r, b.fma(b.mul(r, square), b.balanced_poly(square, _SIN), low))
    # The sign is restored because -0.0 + 0.0 is 0.0.
    return b.copysign(y, r)


def _cosine(b: Builder, r: Value, low: Value) -> Value:
    square = b.mul(r, r)
    half = b.mul(square, 0.5)
    y = b.sub(1.0, half)
    lost = b.sub(b.sub(1.0, y), half)
    return b.add(y, b.fma(b.mul(square, square), b.balanced_poly(square, _COS), b.fma(b.neg(r), low, lost)))


def _after_turns(b: Builder, x: Value, turns: int) -> Value:
    """sin(x + turns pi / 2)."""
    r, low, n = _reduce(b, x)
    n = b.iadd(n, turns)
    y = b.select(b.is_odd(n), _cosine(b, r, low), _sine(b, r, low))
    return b.from_bits(b.xor(b.bits(y), b.both(b.shift_left(n, 62), _SIGN)))


def _or_libm(b: Builder, x: Value, y: Value, libm: str) -> Value:
    """y, or libm's function of x if x is large. For a vector, libm computes all elements if any of them is large."""
    large = b.less(_LARGE, b.abs(x))
    branch = scf.IfOp(b.any(large), [y.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        called = ir.Operation.create(f"llvm.intr.{libm}", [x.type], [x])
        scf.YieldOp([b.select(large, called.result, y)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([y])
    return branch.results[0]


def sin(b: Builder, x: Value) -> Value:
    return _or_libm(b, x, _after_turns(b, x, 0), "sin")


def cos(b: Builder, x: Value) -> Value:
    return _or_libm(b, x, _after_turns(b, x, 1), "cos")


def tan(b: Builder, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r after an odd number of quarter turns."""
    r, low, n = _reduce(b, x)
    sine, cosine = _sine(b, r, low), _cosine(b, r, low)
    odd = b.is_odd(n)
    y = b.div(b.select(odd, cosine, sine), b.select(odd, b.neg(sine), cosine))
    return _or_libm(b, x, y, "tan")
