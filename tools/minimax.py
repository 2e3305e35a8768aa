"""Fits the polynomials of f64 math functions: `python -m cuesta.tools.minimax [NAME ...]` prints their coefficients,
highest power first, and log2 of the largest error.

Uses Remez's exchange on a grid in 200 digits. Coefficients are rounded to doubles one by one from the constant up.
After each, the coefficients of higher powers are fitted again to the remainder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpmath import mp, mpf  # type: ignore[import-untyped]

_GRID = 400
_ROUNDS = 60
Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """The fit of a polynomial to `target` on [low, high] that minimises the largest weighted difference."""

    target: Function
    weight: Function
    low: float
    high: float
    degree: int


def _odd(function: Function, limit: float, degree: int) -> Fit:
    """The fit of (f(t) / t - 1) / t^2 in powers of t^2 on t <= limit. The weight makes f's relative error small."""
    return Fit(
        lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z * mp.sqrt(z) / function(mp.sqrt(z)),
        0.0,
        limit**2,
        degree,
    )


def _exp_rest(r: mpf) -> mpf:
    return (mp.expm1(r) - r) / r**2


def _logarithm(z: mpf) -> mpf:
    """log((1 + s) / (1 - s)) / s."""
    s = mp.sqrt(z)
    return mp.log((1 + s) / (1 - s)) / s


def _log2(z: mpf) -> mpf:
    return _logarithm(z) / mp.ln(2)


def _scaled_erfc(t: mpf) -> mpf:
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


#: (sqrt(2) - 1) / (sqrt(2) + 1), squared.
_LARGEST_Z = 0.029437251522859


def _lgamma(t: mpf) -> mpf:
    """lgamma(2 + t) / t."""
    return mp.loggamma(2 + t) / t


FITS = {
    "exp": Fit(_exp_rest, lambda r: abs(r**2 / mp.expm1(r)), -0.34658, 0.34658, 10),
    "tanh": _odd(mp.tanh, 0.55, 10),
    "log": Fit(lambda z: (_logarithm(z) - 2) / z, lambda z: z / _logarithm(z), 0.0, _LARGEST_Z, 6),
    "log2": Fit(
        lambda z: (_log2(z) - 2 / mp.ln(2) * (1 + z / 3)) / z**2, lambda z: z**2 / _log2(z), 0.0, _LARGEST_Z, 6
    ),
    "sin": _odd(mp.sin, 0.78545, 5),
    "cos": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)), 0.0, 0.78545**2, 5
    ),
    "erf": Fit(
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0.0, 0.9**2, 11
    ),
    "log2_erfc": Fit(lambda a: mp.log(mp.erfc(a), 2), lambda a: mp.ln(2) * mp.erfc(a) / mp.erf(a), 0.9, 6.0, 17),
    "scaled_erfc": Fit(_scaled_erfc, lambda t: 1 / _scaled_erfc(t), -0.78, 0.745, 19),
    "sinh": _odd(mp.sinh, 1.0, 7),
    "atan": _odd(mp.atan, 1.0, 19),
    "asin": _odd(mp.asin, 0.5, 11),
    "lgamma": Fit(_lgamma, lambda t: 1 / _lgamma(t), -0.5, 0.5, 19),
}


def fit(wanted: Fit) -> tuple[list[float], float]:
    """Coefficients from the constant up, and log2 of the largest weighted error."""
    middle, half = (mpf(wanted.high) + wanted.low) / 2, (mpf(wanted.high) - wanted.low) / 2
    points = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * _GRID)) for i in range(_GRID)]
    weights = [wanted.weight(u) for u in points]
    targets = rest = [wanted.target(u) for u in points]
    rounded: list[float] = []
    for power in range(wanted.degree + 1):
        here = [weight * abs(u) ** power for u, weight in zip(points, weights, strict=True)]
        rounded.append(float(_remez(points, rest, here, wanted.degree - power)[0]))
        rest = [(value - rounded[-1]) / u for u, value in zip(points, rest, strict=True)]
    errors = (w * (_value(rounded, u) - t) for u, w, t in zip(points, weights, targets, strict=True))
    return rounded, float(mp.log(max(map(abs, errors)), 2))


def _remez(points: list[mpf], targets: list[mpf], weights: list[mpf], degree: int) -> list[mpf]:
    """The coefficients, constant first, with the least maximum weighted error. Raises ArithmeticError."""
    count = degree + 2
    chosen = [round((_GRID - 1) * i / (count - 1)) for i in range(count)]
    for _ in range(_ROUNDS):
        rows = [[*(points[i] ** k for k in range(degree + 1)), (-1) ** j / weights[i]] for j, i in enumerate(chosen)]
        *found, level = mp.lu_solve(mp.matrix(rows), mp.matrix([targets[i] for i in chosen]))
        errors = [w * (_value(found, u) - t) for u, t, w in zip(points, targets, weights, strict=True)]
        if max(map(abs, errors)) < abs(level) * mpf("1.001"):
            return found
        chosen = _extremes(errors, count)
    raise ArithmeticError(f"no polynomial of degree {degree} was found in {_ROUNDS} rounds")


def _extremes(errors: list[mpf], count: int) -> list[int]:
    """Indices of the extremes: the largest error of each run of equal sign, reduced to `count` of alternating signs."""
    runs: list[int] = []
    for i, error in enumerate(errors):
        if runs and (error > 0) == (errors[runs[-1]] > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        sizes = [abs(errors[i]) for i in runs]
        least = sizes.index(min(sizes))
        if len(runs) == count + 1 or least in (0, len(runs) - 1):
            runs.pop(0 if sizes[0] < sizes[-1] else -1)
        else:  # Its two neighbours have the same sign and become one run.
            del runs[least], runs[least - (sizes[least - 1] < sizes[least + 1])]
    return runs


def _value(coefficients: Sequence[mpf | float], u: mpf) -> mpf:
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * u + c
    return value


def main(names: Sequence[str]) -> None:
    with mp.workdps(200):
        for name in names or FITS:
            coefficients, error = fit(FITS[name])
            print(f"{name}: 2^{error:.1f}", *(f"    {c!r}," for c in reversed(coefficients)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
