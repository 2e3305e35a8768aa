"""Measures the error of results against the same computation in a wider dtype (the arbiter), as a multiple of eager's.

A tensor's error is the norm of its difference from the arbiter's tensor. The error is at least eps/2 of the arbiter's
norm: rounding the exact result to the tensor's dtype can cause that much, and below it the order is chance.

The error of a single number, such as a loss or the gradient of a scale for all elements, is one random draw, and
eager's may be near zero by chance. For such results eager's error is the quadratic mean over eager and eager runs with
weights moved within their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, finfo

ALLOWED = 2.0
"""The allowed error, as a multiple of eager's."""


@dataclass(frozen=True)
class Accuracy:
    """Errors as multiples of eager's: of the worst output, of all gradients together, and of the worst gradient."""

    outputs: float
    gradients: float | None
    """The quadratic mean over the parameters, all with the same weight."""
    worst: float | None
    worst_name: str | None
    above: int
    """The number of outputs and gradients with more than ALLOWED times eager's error."""
    error: float
    """The largest error of an output, relative to the arbiter's norm."""
    eager_error: float

    @property
    def right(self) -> bool:
        return max(self.outputs, self.gradients or 0.0) <= ALLOWED

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"right": self.right}


def compare(
    actual: Sequence[Tensor],
    eager: Sequence[Tensor],
    exact: Sequence[Tensor],
    gradients: Sequence[str],
    nearby: Sequence[Sequence[Tensor]] = (),
) -> Accuracy:
    """Judges `actual`. The last tensors of each list are the gradients of the parameters that `gradients` names.

    `nearby` are the results of other eager runs, used for those of one element. Raises ValueError if the numbers of
    results differ.
    """
    if not len(actual) == len(eager) == len(exact):
        raise ValueError(f"{len(actual)} results where eager has {len(eager)} and the arbiter {len(exact)}")
    eagers = [[own, *(run[n] for run in nearby if own.numel() == 1 and n < len(run))] for n, own in enumerate(eager)]
    factors = [_factor(*tensors) for tensors in zip(actual, eagers, exact, strict=True)]
    count = len(factors) - len(gradients)
    outputs, of_gradients = factors[:count], factors[count:]
    worst = max(range(len(gradients)), key=lambda n: of_gradients[n], default=None)
    return Accuracy(
        outputs=max(outputs, default=0.0),
        gradients=math.sqrt(sum(f * f for f in of_gradients) / len(of_gradients)) if of_gradients else None,
        worst=None if worst is None else of_gradients[worst],
        worst_name=None if worst is None else gradients[worst],
        above=sum(f > ALLOWED for f in factors),
        error=max((_relative(a, e) for a, e in zip(actual[:count], exact[:count], strict=True)), default=0.0),
        eager_error=max((_relative(a, e) for a, e in zip(eager[:count], exact[:count], strict=True)), default=0.0),
    )


def _factor(actual: Tensor, eager_runs: Sequence[Tensor], exact: Tensor) -> float:
    """The error over eager's error; infinite if shape or dtype differ, or if only `actual` has a NaN."""
    eager = eager_runs[0]
    if actual.shape != eager.shape or actual.dtype != eager.dtype:
        return math.inf
    if not eager.dtype.is_floating_point:
        return 1.0 if bool((actual == eager).all()) else math.inf
    if actual.numel() == 0:
        return 1.0
    floor = finfo(eager.dtype).eps / 2 * _norm(exact)
    own = max(_distance(actual, exact), floor)
    eagers = max(math.sqrt(sum(_distance(run, exact) ** 2 for run in eager_runs) / len(eager_runs)), floor)
    if own == eagers:
        return 1.0
    if math.isnan(own) or eagers == 0:
        return math.inf
    return own / eagers


def _relative(actual: Tensor, exact: Tensor) -> float:
    if not actual.dtype.is_floating_point or actual.shape != exact.shape or actual.numel() == 0:
        return 0.0
    return _distance(actual, exact) / (_norm(exact) or 1.0)


def _distance(actual: Tensor, exact: Tensor) -> float:
    return _norm(actual.to(exact.dtype) - exact)


def _norm(tensor: Tensor) -> float:
    return float(tensor.double().norm())
