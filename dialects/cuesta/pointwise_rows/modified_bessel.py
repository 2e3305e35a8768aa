"""Rows of modified Bessel functions, in f32. Coefficients are interpolated at Chebyshev's points."""

import math as pymath
from collections.abc import Callable
from typing import TypeAlias

import torch

from cuesta._mlir import ir, math
from cuesta.dialects.cuesta.pointwise_rows.horner import affine, polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

# I0(a) in powers of (a / 8)² on a <= 8: 2^-25.4.
_I0_SMALL = (
    1.028481125831604,
    1.6416312456130981,
    11.578108787536621,
    31.7783203125,
    73.01721954345703,
    113.7386474609375,
    113.78189849853516,
    63.99979782104492,
    16.000003814697266,
    1.0,
)
# sqrt(a) e^(-a) I0(a) in powers of 16 / a - 1 on a >= 8: 2^-24.5.
_I0_LARGE = (
    3.626670377343544e-07,
    1.6391348935940186e-06,
    1.1112148058600724e-05,
    0.00013615602802019566,
    0.0033605557400733232,
    0.40217649936676025,
)
# I1(a) / a in powers of (a / 8)² on a <= 8: 2^-25.6.
_I1_SMALL = (
    0.04949755221605301,
    0.09884154051542282,
    0.7112088799476624,
    2.2805750370025635,
    6.079511642456055,
    11.375349998474121,
    14.222506523132324,
    10.666650772094727,
    4.000000476837158,
    0.5,
)
# sqrt(a) e^(-a) I1(a) in powers of 16 / a - 1 on a >= 8: 2^-26.2.
_I1_LARGE = (
    -4.210350255107187e-07,
    -2.0097888864256674e-06,
    -1.5003965017967857e-05,
    -0.00021916808327659965,
    -0.0097495811060071,
    0.389398455619812,
)
# I0(x) in powers of x² / 2 - 1 on x <= 2: 2^-25.5.
_I0_TWO = (
    2.3581517325510504e-06,
    0.00011986923345830292,
    0.003928564954549074,
    0.07358984649181366,
    0.6358617544174194,
    1.5660829544067383,
)
# I1(x) / x in powers of x² / 2 - 1 on x <= 2: 2^-24.2.
_I1_TWO = (
    1.942091927276124e-07,
    1.1791332326538395e-05,
    0.0004792827239725739,
    0.011785694397985935,
    0.1471797376871109,
    0.6358617544174194,
)
# K0(x) + log(x / 2) I0(x) in powers of x² / 2 - 1 on x <= 2, absolute: 2^-25.6.
_K0_SMALL = (
    4.055665613122983e-06,
    0.00018289696890860796,
    0.005053392145782709,
    0.07177697867155075,
    0.34049731492996216,
    -0.3036207854747772,
)
# sqrt(x) e^x K0(x) in powers of 4 / x - 1 on x >= 2: 2^-24.2.
_K0_LARGE = (
    -2.9827135676896432e-06,
    8.853803592501208e-06,
    -2.408834006928373e-05,
    9.831780334934592e-05,
    -0.00047995673958212137,
    0.0030331495217978954,
    -0.03107144683599472,
    1.2185953855514526,
)
# x K1(x) - x log(x / 2) I1(x) in powers of x² / 2 - 1 on x <= 2, absolute: 2^-24.6.
_K1_SMALL = (
    -7.08284062511666e-07,
    -3.8934496842557564e-05,
    -0.0013831687392666936,
    -0.027854226529598236,
    -0.24383853375911713,
    -0.3322409689426422,
    0.8850882649421692,
)
# sqrt(x) e^x K1(x) in powers of 4 / x - 1 on x >= 2: 2^-26.1.
_K1_LARGE = (
    3.6742937936651288e-06,
    -1.1206273484276608e-05,
    3.207374538760632e-05,
    -0.0001380864268867299,
    0.0007359473966062069,
    -0.005567041225731373,
    0.1033497229218483,
    1.3631519079208374,
)


def _squared(s: Scalar, x: Value, factor: float) -> Value:
    scaled = s.mul(x, s.const(x, factor))
    return s.mul(scaled, scaled)


def _far(s: Scalar, a: Value, bound: float, table: tuple[float, ...]) -> Value:
    """A polynomial of 2 · bound / a - 1, over sqrt(a)."""
    position = affine(s, s.div(s.const(a, 1), a), 2 * bound, -1)
    return s.div(polynomial(s, position, table), math.sqrt(a))


def _i(s: Scalar, x: Value, order: int, scaled: bool) -> Value:
    """I0 or I1 of x, times e^(-|x|) where `scaled`."""
    a = s.abs(x)
    near = polynomial(s, _squared(s, a, 0.125), (_I0_SMALL, _I1_SMALL)[order])
    near = s.mul(near, a) if order else near
    if scaled:
        near = s.mul(near, math.exp(s.neg(a)))
        far = _far(s, a, 8, (_I0_LARGE, _I1_LARGE)[order])
    else:  # e^100 overflows; its root does not
        m = s.minimum(a, s.const(x, 100))
        root = math.exp(s.mul(s.const(x, 0.5), m))
        far = s.mul(s.mul(root, _far(s, m, 8, (_I0_LARGE, _I1_LARGE)[order])), root)
    value = s.select(s.compare("le", a, s.const(x, 8)), near, far)
    # As in ATen, I1 of -0 is 0.
    return s.select(s.compare("lt", x, s.const(x, 0)), s.neg(value), value) if order else value


def _k(s: Scalar, x: Value, order: int, scaled: bool) -> Value:
    """K0 or K1 of x, times e^x where `scaled`."""
    position = affine(s, s.mul(x, x), 0.5, -1)
    log = math.log(s.mul(s.const(x, 0.5), x))
    if order:
        growing = s.mul(s.mul(log, x), polynomial(s, position, _I1_TWO))
        near = s.add(s.div(polynomial(s, position, _K1_SMALL), x), growing)
    else:
        near = s.sub(polynomial(s, position, _K0_SMALL), s.mul(log, polynomial(s, position, _I0_TWO)))
    far = _far(s, x, 2, (_K0_LARGE, _K1_LARGE)[order])
    if scaled:
        near = s.mul(near, math.exp(x))
    else:
        far = s.mul(far, math.exp(s.neg(x)))
    value = s.select(s.compare("gt", x, s.const(x, 2)), far, near)
    return s.select(s.compare("eq", x, s.const(x, 0)), s.const(x, pymath.inf), value)


def _row(
    name: str, compute: Callable[..., Value], order: int, function: Callable[..., torch.Tensor], scaled: bool = False
) -> Pointwise:
    return Pointwise(name, 1, lambda s, x: compute(s, x, order, scaled), function, "float", cost=45, doubles=False)


_special = torch.special
ROWS: tuple[Pointwise, ...] = (
    _row("i0", _i, 0, torch.i0),
    _row("special_i0e", _i, 0, _special.i0e, True),
    _row("special_i1", _i, 1, _special.i1),
    _row("special_i1e", _i, 1, _special.i1e, True),
    _row("special_modified_bessel_i0", _i, 0, _special.modified_bessel_i0),
    _row("special_modified_bessel_i1", _i, 1, _special.modified_bessel_i1),
    _row("special_modified_bessel_k0", _k, 0, _special.modified_bessel_k0),
    _row("special_modified_bessel_k1", _k, 1, _special.modified_bessel_k1),
    _row("special_scaled_modified_bessel_k0", _k, 0, _special.scaled_modified_bessel_k0, True),
    _row("special_scaled_modified_bessel_k1", _k, 1, _special.scaled_modified_bessel_k1, True),
)
