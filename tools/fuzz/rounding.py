"""How far results may differ for rounding alone: what they are compared with runs again with all rounding disturbed.

What differs from run to run is what rounding decides (stochastic arithmetic: Vignes, "A stochastic arithmetic for
reliable scientific computation", 1993). So no graph or program is too deep or too badly conditioned to be judged, and
where a comparison or a position hangs on rounding, only that is let pass.

Inputs are exact, so they stay as they are. What an op gives is moved where float64 gives another number, as that is
where it was rounded; what is only copied stays equal. So a variance of equal numbers, of which eager happens to have no
error, has one here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cuesta.tools.fuzz.failure import Failure

Tensor = torch.Tensor

#: Runs of what is compared with that have other rounding errors; and as many as it takes to show what rounding changes
#: in one run of ten, before anything is called wrong.
RUNS, ALL_RUNS = 3, 40
#: The largest of a few draws falls short of the largest difference there can be.
FACTOR = 8.0
#: Of an op that has no error in eager, in last places of the largest number: a kernel of ours may order it otherwise.
#: Narrow floats are computed in f32 and rounded once.
_WIDE_PLACES, _NARROW_PLACES = 8, 2

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
#: Rounded once, and by everyone in the same way.
_CONVERSIONS = frozenset({"_to_copy", "copy_", "copy"})
#: A total may be exact though the partial sums are not, of which another order has others.
_TOTALS = frozenset(
    {"sum", "nansum", "mean", "var", "var_mean", "std", "std_mean", "linalg_vector_norm", "norm", "cumsum", "cumsum_",
     "native_batch_norm", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution"}
)  # fmt: skip
#: Disturbed step by step: a mean that is off is so for all that is taken from it, and moved operands have another.
_IN_STEPS = torch._decomp.get_decompositions([torch.ops.aten.native_layer_norm, torch.ops.aten.native_group_norm])
#: They take what they compute on the way from an operand, so that it is the operand's last place that counts.
_DIFFERENCES = frozenset(
    {"_softmax_backward_data", "_log_softmax_backward_data", "tanh_backward", "sigmoid_backward", "silu_backward",
     "gelu_backward", "mish_backward"}
)  # fmt: skip
#: The least number that they have on the way to a result which may be near 0: the logarithm of 10, beside reciprocals.
_ON_THE_WAY = {"digamma": 2.3}
#: What ATen computes of f64 with fewer digits: a series that ends early, a constant of f32.
_FEW_DIGITS = {"polygamma": 1e-9} | dict.fromkeys(
    ("hardsigmoid", "hardsigmoid_backward", "hardswish", "hardswish_backward"), 1e-7
)
#: Multiples of the one below the other have so few digits that f32 holds their products, and sums of some, exactly.
_STEP, _BOUND = 1 / 8, 128.0


class DisturbedRounding(TorchDispatchMode):
    """While it is entered, what an op had to round is off by a unit in the last place, or by twice its error where that
    is larger; of an op that is not pointwise the operands are too, in the precision that it adds up in. Each seed has
    errors of its own."""

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
        # Both before the op, which may write to its operands.
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
        if total:  # what it starts from, 0 or the first number, decides what sign a zero has
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
        """Puts `start` with an error, so large at least, in the place of x where `mask` says so."""
        if exact is not None:
            own = (x.double() - exact).abs()
            error = torch.maximum(error, torch.where(own.isfinite(), 2 * own, 0))
        moved = start.double() + error * self._errors(x)
        if start is not x:  # a sum's zero may have either sign
            moved = torch.where(moved == 0, moved.copysign(self._errors(x)), moved)
        known = x.isfinite()
        if exact is not None:  # infinite as something on the way to it was, where the result itself fits
            fits = ~known & exact.to(x.dtype).isfinite() & (self._errors(x) > 0)
            known, moved = known | fits, torch.where(fits, exact.to(x.dtype).double(), moved)
        x.copy_(torch.where(mask & known, moved, x.double()))
        self._sign_nans(x)

    def _sign_nans(self, x: Tensor) -> None:
        """Gives each NaN a sign: it has any, which another conversion takes from it or does not."""
        x.copy_(torch.where(x.isnan(), x.copysign(self._errors(x).to(x.dtype)), x))

    def _moved(self, leaf: Any) -> Any:
        """An operand in float64 with errors of the precision that it is computed in."""
        if not _is_float(leaf) or _is_coarse(leaf):
            return _widened(leaf)
        eps = torch.finfo(torch.float32 if leaf.dtype in _NARROW else torch.float64).eps
        return leaf.double() * (1 + eps * self._errors(leaf))

    def _errors(self, x: Tensor) -> Tensor:
        """Numbers from -1 to 1."""
        return (torch.rand(x.shape, generator=self.generator, dtype=torch.float64) * 2 - 1).to(x.device)


def _name(func: Any) -> str:
    return str(func._schema.name.partition("::")[2])


def _is_exact(func: Any) -> bool:
    """Whether it is a view, or a conversion, or makes memory that holds nothing yet."""
    aliases = [result.alias_info for result in func._schema.returns]
    is_view = any(a is not None and not a.is_write for a in aliases)
    return is_view or _name(func) in _CONVERSIONS or "empty" in _name(func)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _is_coarse(x: Tensor) -> bool:
    return bool(((x.double() / _STEP).frac().eq(0) & (x.abs() < _BOUND)).all())


def _largest(x: Tensor) -> float:
    return max(x[x.isfinite()].abs().tolist(), default=0.0)


def _rounded(func: Any, x: Tensor, exact: Tensor | None, numbers: Tensor) -> Tensor:
    """Which elements of a result were rounded; `exact` is the result in float64 where that tells, `numbers` are those
    of the operands."""
    if exact is None:
        return torch.ones_like(x, dtype=torch.bool)
    if x.dtype != torch.float64:
        return x.double() != exact
    # Nothing is wider: what has few digits passes for exact, and what an op has only moved.
    if _is_coarse(x):
        return torch.zeros_like(x, dtype=torch.bool)
    return torch.ones_like(x, dtype=torch.bool) if torch.Tag.pointwise in func.tags else ~torch.isin(x, numbers)


def _widened(leaf: Any) -> Any:
    """A copy in float64 of what is narrower, a dtype included."""
    if isinstance(leaf, Tensor):
        return leaf.double() if leaf.dtype in _NARROW else leaf.clone()
    return torch.float64 if leaf in _NARROW else leaf


def _run(func: Callable[..., Any], given: Any) -> list[Any] | None:
    """What an op gives of operands in float64; None where torch has no such form of it."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # which whole numbers become
    try:
        return pytree.tree_leaves(func(*given[0], **given[1]))
    except (RuntimeError, NotImplementedError):
        return None
    finally:
        torch.set_default_dtype(default)


def compare(name: str, actual: Tensor, eagers: Sequence[Tensor], exact: Tensor | None = None) -> Failure | None:
    """None where `actual` is the first of `eagers` but for what rounding may change: the others are runs with other
    rounding errors, `exact` is the same in float64 where that is known."""
    expected = eagers[0]
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        found, wanted = (f"{x.dtype}{list(x.shape)}" for x in (actual, expected))
        return Failure("wrong form", f"{name} is {found}, not {wanted}")
    if not expected.is_floating_point():
        steady = torch.stack([x == expected for x in eagers]).all(0)
        return _wrong(name, (actual != expected) & steady, actual, expected)
    want, runs = expected.double(), torch.stack([*eagers]).double()
    # Where NaN or infinity come and go with rounding, anything may be right.
    steady = (_class(runs) == _class(want)).all(0)
    misplaced = _wrong(name, (_class(actual) != _class(want)) & steady, actual, expected)
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


def _class(x: Tensor) -> Tensor:
    """0 for a number, 1 for NaN, 2 and 3 for the infinities."""
    return x.isnan() + 2 * x.isposinf() + 3 * x.isneginf()


def _wrong(name: str, wrong: Tensor, actual: Tensor, expected: Tensor) -> Failure | None:
    if not bool(wrong.any()):
        return None
    at = tuple(int(i) for i in wrong.nonzero()[0])
    count = f"{int(wrong.sum())} of {wrong.numel()} places"
    return Failure("wrong value", f"{name}, {count}; at {list(at)}: {actual[at].item()} for {expected[at].item()}")
