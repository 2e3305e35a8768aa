"""Computes log, log2, log10 and log1p of f32: x = 2^n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), then f Q(f) + n log 2.

The minimax coefficients of Q are computed like those of exponential.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

_SQRT_HALF_BITS = 0x3F3504F3
_EXPONENT_MASK = 0xFF800000
_SMALLEST_NORMAL = 2.0**-126
_INF = float("inf")
_NAN = float("nan")

# n is kept as n * 2^23, the exponent's bits as an integer. This is exact and saves a shift.
_UNIT = 2.0**-23
_LN2 = 0.6931471824645996 * _UNIT  # within 0.05 ulp of ln 2, so that no low part is needed
_LOG10_2 = (0.3010300099849701 * _UNIT, -1.432098883924482e-08 * _UNIT)

# log(1 + f) / f: 2^-25.0, and 2^-27.8 for log1p, whose f has a rounding error of its own.
_LOG = (
    0.08738835901021957,
    -0.14307743310928345,
    0.14916352927684784,
    -0.16570311784744263,
    0.19962239265441895,
    -0.25001776218414307,
    0.3333394527435303,
    -0.49999991059303284,
    1.0,
)
_LOG1P = (
    -0.07624804973602295,
    0.12914630770683289,
    -0.1324707567691803,
    0.1418059766292572,
    -0.16608452796936035,
    0.20002013444900513,
    -0.25001609325408936,
    0.33333325386047363,
    -0.49999988079071045,
    1.0,
)
# log2(1 + f) / f: 2^-25.6.
_LOG2 = (
    -0.07966482639312744,
    0.16333797574043274,
    -0.193325012922287,
    0.20888398587703705,
    -0.23978908360004425,
    0.2883037328720093,
    -0.3606826066970825,
    0.4809037744998932,
    -0.7213475108146667,
    1.4426950216293335,
)
# log10(1 + f) / f: 2^-26.6.
_LOG10 = (
    -0.05117614194750786,
    0.06398200988769531,
    -0.05340380594134331,
    0.05978625267744064,
    -0.07243786007165909,
    0.08699561655521393,
    -0.10857229679822922,
    0.14476189017295837,
    -0.21714724600315094,
    0.4342944920063019,
)


def _split(b: Builder, x: Value) -> tuple[Value, Value]:
    """n * 2^23 and f for positive finite x, denormals included; undefined for other x."""
    denormal = b.less(x, _SMALLEST_NORMAL)
    bits = b.bits(b.select(denormal, b.mul(x, 2.0**23), x))
    exponent = b.both(b.isub(bits, _SQRT_HALF_BITS), _EXPONENT_MASK)
    n = b.to_float(exponent)
    n = b.select(denormal, b.sub(n, 23.0 / _UNIT), n)
    return n, b.sub(b.from_bits(b.isub(bits, exponent)), 1.0)


def at_the_edges(b: Builder, x: Value, y: Value) -> Value:
    """y for positive finite x; -inf for 0, NaN for negative x; infinity and NaN unchanged."""
    y = b.select(b.less(x, _INF), y, x)
    not_positive = b.select(b.equal(x, 0.0), b.const(-_INF, x.type), _NAN)
    return b.select(b.less(0.0, x), y, not_positive)


def log(b: Builder, x: Value) -> Value:
    n, f = _split(b, x)
    return at_the_edges(b, x, b.fma(n, _LN2, b.mul(f, b.poly(f, _LOG))))


def log2(b: Builder, x: Value) -> Value:
    n, f = _split(b, x)
    return at_the_edges(b, x, b.fma(n, _UNIT, b.mul(f, b.poly(f, _LOG2))))


def log10(b: Builder, x: Value) -> Value:
    n, f = _split(b, x)
    low = b.fma(n, _LOG10_2[1], b.mul(f, b.poly(f, _LOG10)))
    return at_the_edges(b, x, b.fma(n, _LOG10_2[0], low))


def log1p(b: Builder, x: Value) -> Value:
    """log of u = 1 + x, where f is corrected for the rounding error of u: (x - (u - 1)) / 2^n."""
    u = b.add(x, 1.0)
    lost = b.sub(x, b.sub(u, 1.0))
    bits = b.bits(u)
    exponent = b.both(b.isub(bits, _SQRT_HALF_BITS), _EXPONENT_MASK)
    # 2^-n; 0 for n > 126, where u has no rounding error.
    unscale = b.from_bits(b.imax(b.isub(0x3F800000, exponent), 0))
    f = b.fma(lost, unscale, b.sub(b.from_bits(b.isub(bits, exponent)), 1.0))
    y = b.fma(b.to_float(exponent), _LN2, b.mul(f, b.poly(f, _LOG1P)))
    y = b.select(b.less(x, _INF), y, x)
    not_positive = b.select(b.equal(u, 0.0), b.const(-_INF, x.type), _NAN)
    return b.copysign(b.select(b.less(0.0, u), y, not_positive), x)
