"""Decides how far results may differ by rounding alone: reruns the reference with every rounding disturbed.

The differences between the runs are what rounding decides (stochastic arithmetic: Vignes, "A stochastic arithmetic for
reliable scientific computation", 1993). So no graph or program is too deep or too badly conditioned to be judged. Where
a comparison or a position depends on rounding, only the affected elements are let pass.

Inputs are exact and are not disturbed. An element of an op's result is disturbed if float64 gives another number, since
the op then rounded the element. Elements that are only copied stay equal. A variance of equal numbers, which eager may
compute without an error, gets an error here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuesta.tools.accuracy import settled, wide_defaults
from cuesta.tools.fuzz.failure import Failure, places_of
from cuesta.torch_private import pytree
from cuesta.torch_private.decompositions import get_decompositions
from cuesta.torch_private.dispatch import TorchDispatchMode
from cuesta.torch_private.ops import schema_of

Tensor = torch.Tensor

#: Disturbed runs of the reference. A result that fails with RUNS of them is compared with ALL_RUNS before it is called
#: wrong: enough to show what rounding changes in one run of ten.
RUNS, ALL_RUNS = 3, 40
#: Multiplies the observed spread: the largest difference in a few runs is below the largest possible one.
FACTOR = 8.0
#: Error allowed even if eager has none, in last places of the largest number: our kernels may compute in another order.
#: Narrow floats are computed in f32 and rounded once.
_WIDE_PLACES, _NARROW_PLACES = 8, 2

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
#: Conversions round once, and every implementation rounds alike.
_CONVERSIONS = frozenset({"_to_copy", "copy_", "copy"})
#: Sums whose total may be exact in one order of addition although the partial sums of another order are rounded.
_TOTALS = frozenset(
    {"sum", "nansum", "mean", "var", "var_mean", "std", "std_mean", "linalg_vector_norm", "norm", "cumsum", "cumsum_",
     "native_batch_norm", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution"}
)  # fmt: skip
#: Decomposed, so that each step is disturbed: an error in a mean is the same for all elements that the mean is
#: subtracted from, whereas disturbed operands have another mean.
_IN_STEPS = get_decompositions([torch.ops.aten.native_layer_norm, torch.ops.aten.native_group_norm])
#: Ops that subtract an intermediate value from an operand, so that their error is a last place of the operand.
_DIFFERENCES = frozenset(
    {"_softmax_backward_data", "_log_softmax_backward_data", "tanh_backward", "sigmoid_backward", "silu_backward",
     "gelu_backward", "mish_backward"}
)  # fmt: skip
#: Least magnitude of an op's intermediate values, where the result may be near 0. digamma adds reciprocals to the
#: logarithm of 10.
_ON_THE_WAY = {"digamma": 2.3}
#: Relative error of ops that ATen computes with fewer digits than f64 has: a truncated series, a constant in f32.
_FEW_DIGITS = {"polygamma": 1e-9} | dict.fromkeys(
    ("hardsigmoid", "hardsigmoid_backward", "hardswish", "hardswish_backward"), 1e-7
)
#: Multiples of _STEP below _BOUND have so few digits that f32 holds their products, and sums of a few, exactly.
_STEP, _BOUND = 1 / 8, 128.0


class DisturbedRounding(TorchDispatchMode):
    """Mode that adds a random error to each rounded element of an op's result: up to a unit in the last place, or up to
    twice the element's own error if that is larger. The operands of an op that is not pointwise are disturbed as well,
    in the precision of its accumulator. Each seed has other errors."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = (tuple(args), dict(kwargs or {}))
        if func in _IN_STEPS:
            with self:
                return _IN_STEPS[func](*args, **(kwargs or {}))
        if _is_exact(func):
            moves = func(*given[0], **given[1])
            if _name(func) in _CONVERSIONS and _is_float(moves):
                self._sign_nans(moves)
            return moves
        # Both copies are made before the op, which may write to its operands.
        wide, moved = pytree.tree_map(_widened, given), pytree.tree_map(self._moved, given)
        total = _name(func) in _TOTALS
        operands = [*filter(_is_float, pytree.tree_leaves(given))]
        known = not total or all(map(_is_coarse, operands))
        numbers = torch.cat([x.double().flatten() for x in operands] or [torch.empty(0, dtype=torch.float64)])
        found = func(*given[0], **given[1])
        leaves = pytree.tree_leaves(found)
        exact = _run(func, wide) or [None] * len(leaves)
        rounded = {
            i: _rounded(func, x, exact[i] if known else None, numbers) for i, x in enumerate(leaves) if _is_float(x)
        }
        if total:  # the sign of a zero depends on whether a sum starts from 0 or from the first number
            rounded = {i: mask | (leaves[i] == 0) for i, mask in rounded.items()}
        if not any(bool((mask | leaves[i].isnan()).any()) for i, mask in rounded.items()):
            return found
        others = None if torch.Tag.pointwise in func.tags else _run(func, moved)
        least = _largest(numbers) if _name(func) in _DIFFERENCES else _ON_THE_WAY.get(_name(func), 0.0)
        for i, mask in rounded.items():
            eps = max(torch.finfo(leaves[i].dtype).eps, _FEW_DIGITS.get(_name(func), 0))
            error = leaves[i].double().abs().clamp(min=least) * eps
            self._disturb(leaves[i], mask, error, exact[i], leaves[i] if others is None else others[i])
        return found

    def _disturb(self, x: Tensor, mask: Tensor, error: Tensor, exact: Tensor | None, start: Tensor) -> None:
        """Replaces the elements of x in `mask` by `start` plus a random error of up to `error`, or of up to twice the
        difference of x from `exact` if that is larger."""
        if exact is not None:
            own = (x.double() - exact).abs()
            error = torch.maximum(error, torch.where(own.isfinite(), 2 * own, 0))
        moved = start.double() + error * self._errors(x)
        if start is not x:  # a sum's zero may have either sign
            moved = torch.where(moved == 0, moved.copysign(self._errors(x)), moved)
        known = x.isfinite()
        if exact is not None:  # an intermediate value overflowed, though the result itself fits
            fits = ~known & exact.to(x.dtype).isfinite() & (self._errors(x) > 0)
            known, moved = known | fits, torch.where(fits, exact.to(x.dtype).double(), moved)
        x.copy_(torch.where(mask & known, moved, x.double()))
        self._sign_nans(x)

    def _sign_nans(self, x: Tensor) -> None:
        """Gives each NaN a random sign: the sign is arbitrary, and only some conversions keep it."""
        x.copy_(torch.where(x.isnan(), x.copysign(self._errors(x).to(x.dtype)), x))

    def _moved(self, leaf: Any) -> Any:
        """An operand in float64, with errors of the precision in which the op computes."""
        if not _is_float(leaf) or _is_coarse(leaf):
            return _widened(leaf)
        eps = torch.finfo(torch.float32 if leaf.dtype in _NARROW else torch.float64).eps
        return leaf.double() * (1 + eps * self._errors(leaf))

    def _errors(self, x: Tensor) -> Tensor:
        """Random numbers from -1 to 1 in the shape of x."""
        return (torch.rand(x.shape, generator=self.generator, dtype=torch.float64) * 2 - 1).to(x.device)


def _name(func: Any) -> str:
    return str(schema_of(func).name.partition("::")[2])


def _is_exact(func: Any) -> bool:
    """Whether an op needs no disturbance: a view, a conversion, or an allocation of uninitialised memory."""
    aliases = [result.alias_info for result in schema_of(func).returns]
    is_view = any(a is not None and not a.is_write for a in aliases)
    return is_view or _name(func) in _CONVERSIONS or "empty" in _name(func)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _is_coarse(x: Tensor) -> bool:
    return bool(((x.double() / _STEP).frac().eq(0) & (x.abs() < _BOUND)).all())


def _largest(x: Tensor) -> float:
    return max(x[x.isfinite()].abs().tolist(), default=0.0)


def _rounded(func: Any, x: Tensor, exact: Tensor | None, numbers: Tensor) -> Tensor:
    """Mask of the elements of a result x that were rounded. `exact` is the result in float64, or None if it does not
    show that. `numbers` are all elements of the operands."""
    if exact is None:
        return torch.ones_like(x, dtype=torch.bool)
    if x.dtype != torch.float64:
        return x.double() != exact
    # No dtype is wider than float64: numbers with few digits, and those copied from an operand, count as exact.
    if _is_coarse(x):
        return torch.zeros_like(x, dtype=torch.bool)
    return torch.ones_like(x, dtype=torch.bool) if torch.Tag.pointwise in func.tags else ~torch.isin(x, numbers)


def _widened(leaf: Any) -> Any:
    """A copy of a tensor, in float64 if it is a narrower float; float64 for a narrower float dtype."""
    if isinstance(leaf, Tensor):
        return leaf.double() if leaf.dtype in _NARROW else leaf.clone()
    return torch.float64 if leaf in _NARROW else leaf


def _run(func: Callable[..., Any], given: Any) -> list[Any] | None:
    """The results of an op for operands in float64; None if torch does not support the op for them."""
    with wide_defaults(), contextlib.suppress(RuntimeError, NotImplementedError):
        return pytree.tree_leaves(func(*given[0], **given[1]))
    return None


@dataclass
class Reference:
    """What a computation gives by name, the same with other rounding errors as far as it is asked for, and in float64.

    `run` is the computation; it makes its operands anew each time. `exact` are the results in float64, where known."""

    run: Callable[[], Mapping[str, Tensor]]
    expected: Mapping[str, Tensor]
    exact: Mapping[str, Tensor] = field(default_factory=dict)
    _disturbed: list[Mapping[str, Tensor]] = field(default_factory=list)

    def compare(self, actual: Mapping[str, Tensor]) -> Failure | None:
        """None if all of `actual` equals what is expected up to rounding."""
        failure = self._compare(actual, RUNS)
        return failure and self._compare(actual, ALL_RUNS)

    def _compare(self, actual: Mapping[str, Tensor], count: int) -> Failure | None:
        for seed in range(len(self._disturbed), count):
            with DisturbedRounding(seed):
                self._disturbed.append(self.run())
        for name, want in self.expected.items():
            eagers = [want, *(run[name] for run in self._disturbed)]
            wrong = compare(name, actual[name], eagers, self.exact.get(name))
            if wrong is not None:
                return wrong
        return None


def compare(name: str, actual: Tensor, eagers: Sequence[Tensor], exact: Tensor | None = None) -> Failure | None:
    """None if `actual` equals the first of `eagers` up to rounding. The other eagers are runs with other rounding
    errors; `exact` is the result in float64, if known."""
    expected = eagers[0]
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        found, wanted = (f"{x.dtype}{list(x.shape)}" for x in (actual, expected))
        return Failure("wrong form", f"{name} is {found}, not {wanted}")
    if not expected.is_floating_point():
        steady = torch.stack([x == expected for x in eagers]).all(0)
        return _wrong(name, (actual != expected) & steady, actual, expected)
    want, runs = expected.double(), torch.stack([*eagers]).double()
    # Where rounding decides whether an element is NaN or infinite, every value is accepted.
    steady = (settled(runs) == settled(want)).all(0)
    misplaced = _wrong(name, (settled(actual) != settled(want)) & steady, actual, expected)
    if misplaced is not None or not want.numel():
        return misplaced
    finite = want.isfinite() & steady
    spread = torch.where(finite, (runs - want).abs(), 0).amax()
    if exact is not None:
        known = finite & exact.isfinite()
        spread = torch.maximum(spread, torch.where(known, (exact.double() - want).abs(), 0).amax())
    info = torch.finfo(actual.dtype)
    places = _WIDE_PLACES if info.eps <= torch.finfo(torch.float32).eps else _NARROW_PLACES
    scale = torch.where(finite, want.abs(), 0).amax()
    allowed = FACTOR * spread + places * info.eps * scale + info.tiny
    return _wrong(name, finite & ((actual.double() - want).abs() > allowed), actual, expected)


def _wrong(name: str, wrong: Tensor, actual: Tensor, expected: Tensor) -> Failure | None:
    if not bool(wrong.any()):
        return None
    return Failure("wrong value", f"{name}, {places_of(wrong, actual, expected)}")
