"""How far results may differ for rounding alone: a graph is run again with every rounding disturbed.

What differs from run to run is what rounding decides (stochastic arithmetic: Vignes, "A stochastic arithmetic for
reliable scientific computation", 1993). So no graph is too deep or too badly conditioned to be judged, and where
a comparison or a position hangs on rounding, only that is let pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta import REFERENCES, pointwise
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.reference import find_function
from cuesta.tools.fuzz.failure import Failure

Tensor = torch.Tensor

#: Runs that are compared with; and as many as it takes to show what rounding changes in one run of ten, before
#: anything is called wrong.
RUNS, ALL_RUNS = 4, 40
#: The largest of a few draws falls short of the largest difference there can be.
FACTOR = 8.0
#: In units of the last place, either way.
_DISTURBANCE = 2.0
#: The quotient's jumps, which a rounding error of an operand may cross.
_JUMPING = frozenset({"cuesta.remainder", "cuesta.floor_divide", "cuesta.fmod", "cuesta.trunc_divide"})
#: Computed with one rounding at most, the same one in every implementation.
_EXACT_ROWS = frozenset(
    row.name for row in pointwise.ROWS if row.promotion != "float" and f"cuesta.{row.name}" not in _JUMPING
)
_EXACT = frozenset(f"cuesta.{name}" for name in _EXACT_ROWS) | {
    "cuesta.div", "cuesta.where", "cuesta.convert", "cuesta.amax", "cuesta.amin", "cuesta.any", "cuesta.all",
    "cuesta.argmax", "cuesta.argmin", "cuesta.reshape", "cuesta.permute", "cuesta.expand", "cuesta.slice",
    "cuesta.cat", "cuesta.flip", "cuesta.copy", "cuesta.constant", "cuesta.iota", "cuesta.index", "cuesta.gather",
    "cuesta.window", "cuesta.scatter_one", "aten.call",
}  # fmt: skip
#: Close to zero they are what is left of a sum with 1.
_CANCELLING = frozenset(f"cuesta.{name}" for name in pointwise.BY_NAME if name.startswith(("gelu", "silu")))
#: Of the size of whose argument errors are: the logarithm of a sum that may be close to 1.
_LOGARITHM_OF_SUM = "cuesta.log_softmax"


def disturbed_runs(module: ir.Module, inputs: Sequence[Tensor], count: int) -> list[list[Tensor]]:
    """What the reference gives, new values of written arguments included, `count` times, each with other rounding
    errors."""
    entry = find_function(module, "graph").regions[0].blocks[0]
    return [_disturbed_run(entry, inputs, seed) for seed in range(count)]


def _disturbed_run(entry: ir.Block, inputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = dict(zip(entry.arguments, inputs, strict=True))
    for view in entry.operations:
        op = view.operation
        operands = [values[v] for v in op.operands]
        if op.name == "func.return":
            return operands
        exact = op.name in _EXACT
        if op.name in _JUMPING:
            operands = _moved_quotient(operands, 1 if seed % 2 else -1)
        elif not exact:
            operands = [_disturb(x, generator) for x in operands]
        results = REFERENCES[op.name](op, operands)
        found = list(results) if isinstance(results, (list, tuple)) else [results]
        if not exact:
            floor = max(_size(x) for x in operands) if op.name in _CANCELLING else float(op.name == _LOGARITHM_OF_SUM)
            found = [_disturb(x, generator, floor) for x in found]
            if op.name == "cuesta.sum":
                found = [_disturb_sum(found[0], operands[0], ints(op.attributes["dims"]), generator)]
        values.update(zip(op.results, found, strict=True))
    raise AssertionError("a function ends in a return")


def _disturb(x: Tensor, generator: torch.Generator, floor: float = 0.0) -> Tensor:
    """x with errors of a unit in the last place or two, or of numbers of the size `floor` where those are larger. A NaN
    has any sign."""
    if not x.is_floating_point():
        return x
    errors = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
    moved = x + x.abs().clamp(min=floor) * errors * _DISTURBANCE * torch.finfo(x.dtype).eps
    return torch.where(x.isnan(), moved.copysign(errors), moved).to(x.dtype)


def _disturb_sum(total: Tensor, x: Tensor, dims: Sequence[int], generator: torch.Generator) -> Tensor:
    """The total with the errors of n additions one after another, which any order of a sum may be in part: each rounds
    its S_k, the sum so far, evenly within half a unit in the last place, so the errors' deviation is
    eps / 2 * sqrt(sum of S_k² / 3). Narrow floats are added up in f32."""
    if not x.is_floating_point():
        return total
    eps = min(torch.finfo(x.dtype).eps, torch.finfo(torch.float32).eps)
    kept = [d for d in range(x.dim()) if d not in dims]
    rows = x.double().permute(*kept, *dims).reshape(*(x.shape[d] for d in kept), -1)
    deviation = eps / 2 * (rows.cumsum(-1).square().sum(-1) / 3).sqrt().reshape(total.shape)
    return (total + deviation * torch.randn(total.shape, generator=generator, dtype=torch.float64)).to(total.dtype)


def _moved_quotient(operands: Sequence[Tensor], sign: int) -> list[Tensor]:
    """Both moved by the largest error, so that their quotient is larger in one run and smaller in the next: between
    the two lies all that rounding can do, each jump included."""
    x, y = operands
    if not x.is_floating_point():
        return [x, y]
    error = sign * _DISTURBANCE * torch.finfo(x.dtype).eps
    return [(x * (1 + error)).to(x.dtype), (y * (1 - error)).to(x.dtype)]


def _size(x: Tensor) -> float:
    """The largest finite magnitude."""
    return float(x.abs().double().nan_to_num(0, 0, 0).amax()) if x.numel() else 0.0


def compare(index: int, actual: Tensor, expected: Tensor, disturbed: Sequence[Tensor]) -> Failure | None:
    """None where `actual` is `expected` but for what rounding may change."""
    name = f"result {index}"
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        found, wanted = (f"{x.dtype}{list(x.shape)}" for x in (actual, expected))
        return Failure("wrong form", f"{name} is {found}, its reference {wanted}")
    if not expected.is_floating_point():
        settled = torch.stack([x == expected for x in disturbed]).all(0)
        wrong = (actual != expected) & settled
        return _wrong(name, wrong, actual, expected) if bool(wrong.any()) else None
    wide, want, runs = actual.double(), expected.double(), torch.stack(list(disturbed)).double()
    # Where NaN or infinity come and go with rounding, anything may be right.
    settled = (_class(runs) == _class(want)).all(0)
    misplaced = (_class(wide) != _class(want)) & settled
    if bool(misplaced.any()):
        return _wrong(name, misplaced, actual, expected)
    finite = want.isfinite() & settled
    spread = torch.where(finite, (runs - want).abs(), 0).amax()
    scale = torch.where(finite, want.abs(), 0).amax()
    allowed = FACTOR * (spread + torch.finfo(actual.dtype).eps * scale) + torch.finfo(actual.dtype).tiny
    wrong = finite & ((wide - want).abs() > allowed)
    return _wrong(name, wrong, actual, expected) if bool(wrong.any()) else None


def _class(x: Tensor) -> Tensor:
    """0 for a number, 1 for NaN, 2 and 3 for the infinities."""
    return x.isnan() + 2 * x.isposinf() + 3 * x.isneginf()


def _wrong(name: str, wrong: Tensor, actual: Tensor, expected: Tensor) -> Failure:
    at = tuple(int(i) for i in wrong.nonzero()[0])
    count = f"{int(wrong.sum())} of {wrong.numel()} places"
    return Failure("wrong value", f"{name}, {count}; at {list(at)}: {actual[at].item()} for {expected[at].item()}")
