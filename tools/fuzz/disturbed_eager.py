"""Eager with the rounding errors of every op disturbed: what differs from run to run is what rounding decides.

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

Tensor = torch.Tensor

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
#: Rounded once, and by everyone in the same way.
_CONVERSIONS = frozenset({"_to_copy", "copy_", "copy"})
#: A total may be exact though the partial sums are not, of which another order has others.
_TOTALS = frozenset(
    {"sum", "nansum", "mean", "var", "var_mean", "std", "std_mean", "linalg_vector_norm", "norm", "cumsum", "cumsum_",
     "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution"}
)  # fmt: skip
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
        if _is_exact(func):
            return func(*given[0], **given[1])
        # Both before the op, which may write to its operands.
        wide, moved = pytree.tree_map(_widened, given), pytree.tree_map(self._moved, given)
        total = _name(func) in _TOTALS
        known = not total or all(map(_is_coarse, filter(_is_float, pytree.tree_leaves(given))))
        found = func(*given[0], **given[1])
        leaves = pytree.tree_leaves(found)
        exact = _run(func, wide) or [None] * len(leaves)
        rounded = {i: _rounded(func, x, exact[i] if known else None) for i, x in enumerate(leaves) if _is_float(x)}
        if total:  # what it starts from, 0 or the first number, decides what sign a zero has
            rounded = {i: mask | (leaves[i] == 0) for i, mask in rounded.items()}
        if not any(bool(mask.any()) for mask in rounded.values()):
            return found
        others = None if torch.Tag.pointwise in func.tags else _run(func, moved)
        for i, mask in rounded.items():
            self._disturb(leaves[i], mask, exact[i], leaves[i] if others is None else others[i])
        return found

    def _disturb(self, x: Tensor, mask: Tensor, exact: Tensor | None, start: Tensor) -> None:
        """Puts `start` with an error in the place of x where `mask` says so."""
        error = x.double().abs() * torch.finfo(x.dtype).eps
        if exact is not None:
            own = (x.double() - exact).abs()
            error = torch.maximum(error, torch.where(own.isfinite(), 2 * own, 0))
        moved = start.double() + error * self._errors(x)
        if start is not x:  # a sum's zero may have either sign
            moved = torch.where(moved == 0, moved.copysign(self._errors(x)), moved)
        kept = torch.where(x.isnan(), x.double().copysign(self._errors(x)), x.double())  # a NaN has any sign
        x.copy_(torch.where(mask & x.isfinite(), moved, kept))

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
    """Whether it is a view, or a conversion."""
    aliases = [result.alias_info for result in func._schema.returns]
    return _name(func) in _CONVERSIONS or any(a is not None and not a.is_write for a in aliases)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _is_coarse(x: Tensor) -> bool:
    return bool(((x.double() / _STEP).frac().eq(0) & (x.abs() < _BOUND)).all())


def _rounded(func: Any, x: Tensor, exact: Tensor | None) -> Tensor:
    """Which elements of a result were rounded; `exact` is the result in float64 where that tells."""
    if exact is None:
        return torch.ones_like(x, dtype=torch.bool)
    if x.dtype == torch.float64:  # nothing is wider: what has few digits passes for exact
        return torch.full_like(x, torch.Tag.pointwise in func.tags and not _is_coarse(x), dtype=torch.bool)
    return x.double() != exact


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
