"""Computes erf and erfc of f64. Both use the same polynomial near 0. Elsewhere, as for f32, erf is 1 - 2^q(a), and erfc
is e^(-a^2) times a polynomial of (a - 4) / (a + 4).
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double.exponential import exp, one_less_exp2

# erf(a) / a - 1 in powers of a^2 on a <= 0.9: 2^-56.3.
_SMALL = (
    -1.082392935634903e-09,
    1.5097840198490428e-08,
    -1.6479619380642476e-07,
    1.6477627068318193e-06,
    -1.4926829496081287e-05,
    0.00012055388206187959,
    -0.0008548328651844207,
    0.005223977655071136,
    -0.026866170648260086,
    0.11283791670972038,
    -0.3761263890318411,
    0.1283791670955126,
)
# log2(erfc(a)) on 0.9 <= a <= 6, weighted for erf: 2^-55.7.
_LOG2_ERFC = (
    -1.0027668311016451e-11,
    4.067476683189507e-10,
    -7.659326744517066e-09,
    8.865015940340596e-08,
    -7.018877879917552e-07,
    3.98150497332717e-06,
    -1.6264487813554503e-05,
    4.50795943139461e-05,
    -6.0014339762384214e-05,
    -0.00013342639889148605,
    0.0010152333356615933,
    -0.0026451105715753175,
    0.0004788596032199344,
    0.027479169490467404,
    -0.1482132431188832,
    -0.9184667047554982,
    -1.6279032852805624,
    -3.508570138551631e-07,
)
# (1 + 2 a) e^(a^2) erfc(a) in powers of (a - 4) / (a + 4) on 0.5 <= a <= 27.3: 2^-53.6.
_SCALED_ERFC = (
    7.594363187745315e-08,
    3.244231705119265e-08,
    -7.86279276571848e-07,
    3.4113657589293346e-07,
    5.683751455814436e-06,
    -1.1252397668511871e-05,
    -2.4388439622378693e-05,
    0.0001506336080861792,
    -0.00019925956144061513,
    -0.0007577762061698835,
    0.005031970463954265,
    -0.016197733623205635,
    0.03716751548706503,
    -0.066330365849247,
    0.09373283500127987,
    -0.10103906603472264,
    0.06809705425461338,
    0.015379652102594621,
    -0.1396211168405619,
    1.2329951186255526,
)


def _near_zero(b: Builder, x: Value) -> Value:
    """erf x for |x| <= 0.9."""
    return b.fma(x, b.balanced_poly(b.mul(x, x), _SMALL), x)


def erf(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    # erf(6) rounds to 1.
    large = one_less_exp2(b, b.balanced_poly(b.at_most(a, 6.0), _LOG2_ERFC))
    return b.copysign(b.select(b.less(a, 0.9), _near_zero(b, a), large), x)


def erfc(b: Builder, x: Value) -> Value:
    """erfc x, with a tail to the last digits, unlike 1 - erf x: e^(-a^2) is corrected for the rounding error of a^2."""
    # erfc(27.3) rounds to 0.
    a = b.at_most(b.abs(x), 27.3)
    scaled = b.poly(b.div(b.sub(a, 4.0), b.add(a, 4.0)), _SCALED_ERFC)
    square = b.mul(a, a)
    lost = b.fma(a, a, b.neg(square))
    e = exp(b, b.neg(square))
    y = b.div(b.mul(scaled, b.fma(e, b.neg(lost), e)), b.fma(a, 2.0, 1.0))
    y = b.select(b.less(x, 0.0), b.sub(2.0, y), y)
    return b.select(b.less(a, 0.5), b.sub(1.0, _near_zero(b, x)), y)
