"""expand-math, compiled and run: accuracy in ulps, special values, signs of zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import torch

from cuesta.lowering.loops_to_llvm.expand_math import FUNCTIONS

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
S = TypeVar("S", bound=np.floating[Any])
Compile = Callable[..., Any]


def _ulps(got: npt.NDArray[S], want: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The error in units of the last place of `want` as got's dtype; infinity is one ulp above the largest."""
    form = np.finfo(got.dtype)
    wide = want.dtype.type
    top = np.ldexp(wide(1), int(form.maxexp))
    want = np.clip(want, -top, top)
    digits = int(form.nmant) + 1
    exponent = np.clip(np.frexp(want)[1] - digits, int(form.minexp) - digits + 1, int(form.maxexp) - digits)
    return np.abs(np.clip(got.astype(wide), -top, top) - want) / np.ldexp(wide(1), exponent)


def _assert_close(got: npt.NDArray[S], want: npt.NDArray[Any], limit: float, *operands: npt.NDArray[S]) -> None:
    """NaN where `want` is NaN, the same signs (those of zeros included), and at most `limit` ulps away."""
    nan = np.isnan(want)
    wrong = np.isnan(got) != nan
    wrong |= ~nan & (np.signbit(got) != np.signbit(want))
    error = np.where(nan | wrong, 0.0, _ulps(got, want))
    wrong |= error > limit
    if wrong.any():
        worst = np.flatnonzero(wrong)[np.argsort(-error[wrong])][:8]
        rows = [(*(float(a[i]) for a in operands), float(got[i]), float(want[i]), float(error[i])) for i in worst]
        raise AssertionError(f"{int(wrong.sum())} wrong; (operands, got, want, ulps): {rows}")


_TINY = [0.0, 1e-45, 1e-40, 1.1754942e-38, 1.1754944e-38, 1e-30, 1e-15, 1e-8, 1e-4]
_MIDDLE = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 7.0, 9.0, 10.0, 88.0]
_LARGE = [88.72283, 88.72284, 88.8, 89.0, 104.0, 127.0, 128.0, 150.0, 1e10, 3.4028235e38, np.inf, np.nan]
SPECIAL = np.array([*_TINY, *_MIDDLE, *_LARGE], dtype=np.float32)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


def _near(*points: float) -> F32:
    """The 2,000 floats around each point, and around its negative."""
    centre = np.array(points, dtype=np.float32).view(np.int32)[:, None]
    around = (centre + np.arange(-1000, 1000, dtype=np.int32)).view(np.float32).ravel()
    return np.concatenate([around, -around])


def _uniform(low: float, high: float, count: int = 400_000) -> F32:
    return np.random.default_rng(0).uniform(low, high, count).astype(np.float32)


def _every_exponent(count: int = 400_000) -> F32:
    """Random bit patterns: each binade equally often, denormals and NaN among them."""
    return np.random.default_rng(1).integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)


def _torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[F64], F64]:
    def reference(x: F64) -> F64:
        result: F64 = function(torch.from_numpy(x)).numpy()
        return result

    return reference


@dataclass(frozen=True)
class Case:
    """A function, its f64 reference, its limit in ulps, and where to look closely."""

    name: str
    reference: Callable[[F64], F64]
    limit: float
    ranges: tuple[tuple[float, float], ...]
    points: tuple[float, ...]


CASES = (
    Case("exp", np.exp, 2, ((-104, 89), (-1, 1)), (0.3465736, 0.6931472, 87.33654, 88.72284, 103.97208)),
    Case("exp2", np.exp2, 2, ((-150, 129), (-1, 1)), (0.5, 1.0, 126.0, 128.0, 149.0)),
    Case("expm1", np.expm1, 2, ((-20, 89), (-1, 1)), (0.3465736, 0.6931472, 17.32868, 88.72284)),
    Case("tanh", np.tanh, 2, ((-10, 10), (-1, 1)), (0.625, 9.0108, 10.4)),
    Case("log", np.log, 2, ((0, 4), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 1.1754944e-38)),
    Case("log2", np.log2, 2, ((0, 4), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 1.1754944e-38)),
    Case("log10", np.log10, 2, ((0, 4), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 1.1754944e-38)),
    Case("log1p", np.log1p, 2, ((-1, 4), (0, 1e6)), (0.29289322, 0.41421356, 1.0, 16777216.0, 2.4e38)),
    Case("erf", _torch(torch.special.erf), 4, ((-4.5, 4.5), (-1, 1)), (0.9, 3.9192059, 4.0)),
    Case(
        "sin",
        np.sin,
        2,
        ((-10, 10), (-1e5, 1e5), (-1e10, 1e10)),
        (1.5707964, 3.1415927, 6.2831855, 1.698e13, 4.31e22, 2.8e32),
    ),
    Case(
        "cos",
        np.cos,
        2,
        ((-10, 10), (-1e5, 1e5), (-1e10, 1e10)),
        (1.5707964, 3.1415927, 6.2831855, 1.698e13, 4.31e22, 2.8e32),
    ),
    Case(
        "tan",
        np.tan,
        4,
        ((-10, 10), (-1e5, 1e5), (-1e10, 1e10)),
        (0.7853982, 1.5707964, 3.1415927, 1.698e13, 4.31e22, 2.8e32),
    ),
    Case("asin", np.arcsin, 3, ((-1, 1), (-2, 2)), (0.5, 1.0)),
    Case("acos", np.arccos, 3, ((-1, 1), (-2, 2)), (0.5, 1.0)),
    Case("atan", np.arctan, 3, ((-10, 10), (-1, 1)), (1.0, 1e7)),
    Case("sinh", np.sinh, 3, ((-100, 100), (-2, 2)), (1.0, 88.72284, 89.41599)),
    Case("cosh", np.cosh, 3, ((-100, 100), (-2, 2)), (1.0, 88.72284, 89.41599)),
    Case("asinh", np.arcsinh, 4, ((-10, 10), (-1, 1)), (1.0, 1e8)),
    Case("acosh", np.arccosh, 4, ((0, 10), (1, 1e9)), (1.0, 2.0, 1e8)),
    Case("atanh", np.arctanh, 4, ((-1, 1), (-2, 2)), (0.17157288, 0.5, 1.0)),
    Case("erfc", _torch(torch.special.erfc), 6, ((-4, 11), (-1, 1)), (0.5, 2.0, 9.19455, 10.0542, 10.1)),
    Case("rsqrt", lambda x: 1 / np.sqrt(x), 2, ((0, 4),), (1.0, 1.1754944e-38)),
)
#: Functions of two numbers, which have tests of their own.
BINARY = {"powf", "atan2", "remf"}


def test_every_function_has_a_case() -> None:
    assert {case.name for case in CASES} | BINARY == set(FUNCTIONS)
    assert set(WIDE_CASES) | BINARY == set(FUNCTIONS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_accuracy_and_special_values(case: Case, compiled: Compile) -> None:
    x = np.concatenate([SPECIAL, _every_exponent(), _near(*case.points)] + [_uniform(*r) for r in case.ranges])
    got = compiled(case.name)(x)
    with np.errstate(all="ignore"):
        want = case.reference(x.astype(np.float64))
    _assert_close(got, want, case.limit, x)


@dataclass(frozen=True)
class WideCase:
    """The same for f64: a limit of its own, and where the pieces that it is put together from meet."""

    limit: float
    ranges: tuple[tuple[float, float], ...]
    points: tuple[float, ...] = (1.0,)


#: The last point is where libm takes over.
_TURNS = ((-10, 10), (-1e5, 1e5), (-1e11, 1e11), (-1e12, 1e12))
_QUARTERS = (0.7853981633974483, 1.5707963267948966, 3.141592653589793, 6.283185307179586, 2.0**38)
WIDE_CASES = {
    "exp": WideCase(1.1, ((-746, 710), (-1, 1)), (0.34657359, 708.396, 709.7827, 745.133)),
    "exp2": WideCase(1.2, ((-1076, 1025), (-1, 1)), (0.5, 1022.0, 1024.0, 1074.0)),
    "expm1": WideCase(1.5, ((-40, 710), (-1, 1)), (0.34657359, 1e-16, 709.7827)),
    "tanh": WideCase(1.5, ((-20, 20), (-1, 1)), (0.55, 19.06)),
    "log": WideCase(1.0, ((0, 4), (0.5, 1.5), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 2.2250738585072014e-308)),
    "log2": WideCase(1.0, ((0, 4), (0.5, 1.5), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 2.2250738585072014e-308)),
    "log10": WideCase(1.0, ((0, 4), (0.5, 1.5), (0, 1e6)), (0.70710678, 1.0, 1.41421356, 2.2250738585072014e-308)),
    "log1p": WideCase(1.5, ((-1, 4), (-0.5, 0.5), (0, 1e6)), (0.29289322, 0.41421356, 1.0, 9007199254740992.0)),
    "erf": WideCase(1.5, ((-6.2, 6.2), (-1, 1)), (0.9, 5.863)),
    "erfc": WideCase(4, ((-6, 28), (-1, 1)), (0.5, 26.543, 27.226)),
    "asin": WideCase(2.5, ((-1, 1),), (0.5, 1.0)),
    "acos": WideCase(1.5, ((-1, 1),), (0.5, 1.0)),
    "atan": WideCase(2, ((-10, 10), (-1, 1)), (1.0, 1e16)),
    "sinh": WideCase(2, ((-711, 711), (-2, 2)), (1.0, 709.7827, 710.4758)),
    "cosh": WideCase(2, ((-711, 711), (-2, 2)), (1.0, 709.7827, 710.4758)),
    "asinh": WideCase(2, ((-10, 10), (-1, 1)), (1.0, 1e17)),
    "acosh": WideCase(2, ((0, 10), (1, 1e9)), (1.0, 2.0, 1e17)),
    "atanh": WideCase(2.5, ((-1, 1), (-0.3, 0.3)), (0.1715728752538099, 0.5, 1.0)),
    "sin": WideCase(1.0, _TURNS, _QUARTERS),
    "cos": WideCase(1.0, _TURNS, _QUARTERS),
    "tan": WideCase(2.5, _TURNS, _QUARTERS),
    "rsqrt": WideCase(2, ((0, 4),), (1.0, 2.2250738585072014e-308)),
}
_WIDE = [
    5e-324,
    1e-310,
    2.2250738585072014e-308,
    1e-300,
    709.79,
    745.2,
    746.0,
    1024.0,
    1076.0,
    1e300,
    1.7976931348623157e308,
]
WIDE_SPECIAL = np.concatenate([np.array([*_TINY, *_MIDDLE, *_LARGE, *_WIDE]) * sign for sign in (1, -1)])
WIDE_SPECIAL = WIDE_SPECIAL[WIDE_SPECIAL != 3.4028235e38]


def _wide_samples(case: WideCase, count: int) -> F64:
    rng = np.random.default_rng(3)
    centre = np.array(case.points).view(np.int64)[:, None]
    around = (
        (centre + np.linspace(-count // 100, count // 100, count // 100 + 1, dtype=np.int64)).view(np.float64).ravel()
    )
    every_exponent = rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    return np.concatenate(
        [WIDE_SPECIAL, every_exponent, around, -around] + [rng.uniform(*limits, count) for limits in case.ranges]
    )


def _exact(function: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """By mpmath; beyond 30 the error functions are what they tend to."""

    def one(x: float) -> np.longdouble:
        if np.isnan(x):
            return np.longdouble(x)
        return np.longdouble(mpmath.nstr(function(mpmath.mpf(min(max(x, -30.0), 30.0))), 25))

    def reference(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        with mpmath.workprec(80):
            y = np.array([one(float(e)) for e in x])
        return np.where((y == 0) & (x < 1), x, y)  # the sign of erf's zeros

    return reference


@pytest.mark.parametrize("name", WIDE_CASES)
def test_f64(name: str, compiled: Compile) -> None:
    """Against the same functions of numpy's longdouble, of 11 bits more at least, or mpmath."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("needs a long double of more than 64 bits")
    case = WIDE_CASES[name]
    by_mpmath = {"erf": mpmath.erf, "erfc": mpmath.erfc}
    x = _wide_samples(case, 4000 if name in by_mpmath else 400_000)
    same = next(c.reference for c in CASES if c.name == name)
    reference = _exact(by_mpmath[name]) if name in by_mpmath else same
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.longdouble))
    _assert_close(compiled(name, "f64")(x), want, case.limit, x)


@pytest.mark.parametrize(("name", "limit"), [("powf", 1.5), ("atan2", 2)])
def test_f64_of_two_numbers(name: str, limit: float, compiled: Compile) -> None:
    rng = np.random.default_rng(2)
    special_x, special_y = (a.ravel() for a in np.meshgrid(WIDE_SPECIAL, WIDE_SPECIAL))
    integer_x, integer_y = (a.ravel() for a in np.meshgrid(rng.uniform(-9, 9, 500), np.arange(-60.0, 60.0)))
    bits = rng.integers(0, 1 << 64, 400_000, dtype=np.uint64).view(np.float64)
    pairs = (
        (special_x, special_y),
        (integer_x, integer_y),
        (rng.uniform(0.999, 1.001, 400_000), rng.uniform(-7e5, 7e5, 400_000)),
        (rng.uniform(0, 50, 400_000), rng.uniform(-180, 180, 400_000)),
        (bits, rng.uniform(-1, 1, 400_000)),
        (bits, bits[::-1]),
    )
    x, y = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    function = {"powf": np.power, "atan2": np.arctan2}[name]
    with np.errstate(all="ignore"):
        want = function(x.astype(np.longdouble), y.astype(np.longdouble))
    _assert_close(compiled(name, "f64")(x, y), want, limit, x, y)


def test_powf(compiled: Compile) -> None:
    """Against numpy's pow in f64, which follows IEEE 754 as eager does."""
    rng = np.random.default_rng(2)
    special_x, special_y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    integer_x, integer_y = (a.ravel() for a in np.meshgrid(_uniform(-9, 9, 500), np.arange(-60, 60, dtype=np.float32)))
    near_one = rng.uniform(0.999, 1.001, 400_000).astype(np.float32)
    pairs = (
        (special_x, special_y),
        (integer_x, integer_y),
        (near_one, rng.uniform(-1e5, 1e5, near_one.size)),
        (rng.uniform(0, 50, 400_000), rng.uniform(-30, 30, 400_000)),
        (_every_exponent(), rng.uniform(-4, 4, 400_000)),
        (_every_exponent(), _every_exponent()[::-1]),
    )
    x, y = (np.concatenate([np.asarray(pair[side], dtype=np.float32) for pair in pairs]) for side in (0, 1))
    got = compiled("powf")(x, y)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    _assert_close(got, want, 4, x, y)


def test_atan2(compiled: Compile) -> None:
    special_y, special_x = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    pairs = (
        (special_y, special_x),
        (_uniform(-9, 9), _uniform(-9, 9)[::-1]),
        (_every_exponent(), _every_exponent()[::-1]),
    )
    y, x = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    got = compiled("atan2")(y, x)
    with np.errstate(all="ignore"):
        want = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    _assert_close(got, want, 3, y, x)


def test_remf_is_exact(compiled: Compile) -> None:
    """Against numpy's fmod in f64, which rounds nothing: so all bits are the same."""
    special_x, special_y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    whole_x, whole_y = (a.ravel() for a in np.meshgrid(np.arange(-300, 300), np.arange(-30, 30)))
    pairs = (
        (special_x, special_y),
        (whole_x, whole_y),
        (_uniform(-1e6, 1e6), _uniform(-3, 3)[::-1]),
        (_every_exponent(), _every_exponent()[::-1]),
        (_every_exponent(), np.full(400_000, 1e-45)),
    )
    x, y = (np.concatenate([np.asarray(pair[side], dtype=np.float32) for pair in pairs]) for side in (0, 1))
    got = compiled("remf")(x, y)
    with np.errstate(all="ignore"):
        want = np.fmod(x.astype(np.float64), y.astype(np.float64))
    _assert_close(got, want, 0, x, y)


def test_half_precision_is_computed_in_f32(compiled: Compile) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got = compiled("exp", "f16")(x)
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.float64)).astype(np.float16)
    steps = np.abs(got.view(np.int16).astype(int) - want.view(np.int16))
    assert np.all((steps <= 1) | np.isnan(want))
    assert np.array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_next_to_quarter_turns(name: str, compiled: Compile) -> None:
    """The f64 that lie nearest to multiples of pi / 2, where the most digits cancel."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("needs a long double of more than 64 bits")
    rng = np.random.default_rng(4)
    turns = np.concatenate([np.arange(1.0, 200_000.0), np.floor(2.0 ** rng.uniform(17, 37, 400_000))])
    x = turns * (np.pi / 2)
    want = {"sin": np.sin, "cos": np.cos, "tan": np.tan}[name](x.astype(np.longdouble))
    _assert_close(compiled(name, "f64")(x), want, WIDE_CASES[name].limit, x)
