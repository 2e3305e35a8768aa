"""Imports logarithms of complex numbers: log |z|, with care where |z| is near 1 and log |z| near 0, and the angle."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuesta.dialects.types import spelling_of
from cuesta.frontend.aten.complex_numbers import Pair, on_complex
from cuesta.frontend.aten.expressions import Expression, where


@dataclass(frozen=True)
class _Scales:
    """Constants of a float type. `cut`, 2 to half its precision plus 1, splits a number in two. Numbers beyond `far`
    are scaled by 2^`down`, those below 1 / `far` by 2^`up`, so that no square overflows or underflows."""

    cut: float
    far: float
    down: int
    up: int


_SCALES = {"f32": _Scales(2.0**12 + 1, 2.0**50, -70, 100), "f64": _Scales(2.0**27 + 1, 2.0**500, -520, 600)}


@on_complex("log1p")
def log1p(z: Pair) -> Pair:
    """Near 0, computed from |1 + z|² - 1 as re (re + 2) + im², which cancels only where the result does."""
    shifted = Pair(z.re + 1, z.im)
    excess = z.re * (z.re + 2) + z.im * z.im
    length = where(abs(z) < 0.5, excess.of("log1p") * 0.5, _log_length(shifted))
    return Pair(length, z.im.of("atan2", shifted.re))


def _log(z: Pair, unit: float) -> Pair:
    length, angle = _log_length(z), z.im.of("atan2", z.re)
    return Pair(length, angle) if unit == 1 else Pair(length * unit, angle * unit)


on_complex("log")(lambda z: _log(z, 1))
on_complex("log2")(lambda z: _log(z, 1 / math.log(2)))
on_complex("log10")(lambda z: _log(z, 1 / math.log(10)))


def _log_length(z: Pair) -> Expression:
    """log |z|. Near |z| = 1 it is log1p(re² + im² - 1) / 2, where each square is an exact sum of two numbers."""
    scales = _SCALES[spelling_of(z.re.value)]
    x, y = abs(z.re), abs(z.im)
    large, small = x.of("maximum", y), x.of("minimum", y)
    (upper, upper_rest), (lower, lower_rest) = _square(large, scales.cut), _square(small, scales.cut)
    excess = ((upper - 1) + lower) + (upper_rest + lower_rest)
    near = (excess > -0.7) & (excess < 3)
    huge, tiny = large > scales.far, large < 1 / scales.far
    scale = where(huge, x.number(2.0**scales.down), where(tiny, x.number(2.0**scales.up), 1))
    power = where(huge, x.number(scales.down), where(tiny, x.number(scales.up), 0))
    a, b = large * scale, small * scale
    far = (a * a + b * b).of("log") * 0.5 - power * math.log(2)
    length = where(near, excess.of("log1p") * 0.5, far)
    return where(z.re.of("isinf") | z.im.of("isinf"), x.number(math.inf), length)


def _square(x: Expression, cut: float) -> tuple[Expression, Expression]:
    """x² rounded, and the rounding error, for x near 1 (T. J. Dekker, A Floating-Point Technique for Extending the
    Available Precision, 1971)."""
    stretched = x * cut
    upper = stretched - (stretched - x)
    lower = x - upper
    rounded = x * x
    return rounded, ((upper * upper - rounded) + 2 * upper * lower) + lower * lower
