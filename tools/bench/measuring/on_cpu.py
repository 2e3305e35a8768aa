"""Measures one case on a CPU in this process: times, differences from eager, and the least work of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from cuesta import wait_for_tiers
from cuesta.tools.bench.backends import fallbacks, one_line
from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.cases.workload import Workload
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring.cost import Cost, cost_of
from cuesta.tools.bench.measuring.limits import Limits
from cuesta.tools.bench.measuring.timing import Spread, bursts, interleaved

Progress = Callable[[str], None]


def time_case(
    case: Case, contenders: Sequence[str], rounds: int | None, progress: Progress, *, surveys: bool = False
) -> dict[str, Any]:
    """{"times": {contender: seconds by round}, "errors": {contender: difference from eager}, "cost": the fields of a
    Cost, "failed": {contender, or "cost": reason}}. For the survey, of short calls, times are those of `bursts`, and
    there is no cost."""
    progress(f"{case.name}: build")
    workload = case.make().workload()
    found: dict[str, Any] = {"times": {}, "errors": {}, "failed": {}}
    with torch.set_grad_enabled(bool(workload.parameters)):
        if not surveys:
            try:
                found["cost"] = asdict(cost_of(workload))
            except Exception as error:
                found["failed"]["cost"] = one_line(error)
                progress(f"{case.name}: its cost is not known: {found['failed']['cost']}")
        calls = _first_calls(case.name, workload, contenders, found, progress)
        progress(f"{case.name}: time")
        if calls:
            found["times"] = (bursts if surveys else interleaved)(calls, rounds)
    torch.compiler.reset()
    return found


def _first_calls(
    case: str, workload: Workload, contenders: Sequence[str], found: dict[str, Any], progress: Progress
) -> dict[str, Callable[[], Any]]:
    """A warm call of each contender that works. Adds "errors" (differences from eager) and "failed" to `found`."""
    calls: dict[str, Callable[[], Any]] = {}
    reference = workload.results(workload.compiled("eager")())
    for name in contenders:
        progress(f"{case}: first calls, {name}")
        contender = Contender.parse(name)
        try:
            call = workload.compiled(contender.backend, contender.form)
            found["errors"][name] = difference(workload.results(call()), reference)
            wait_for_tiers()  # only the last tier is timed
            call()
            if contender.backend == "cuesta" and (reasons := fallbacks()):
                raise RuntimeError(f"not compiled, but run op by op in Python: {reasons[0]}")
        except Exception as error:
            found["failed"][name] = one_line(error)
            progress(f"{case}: {name} failed: {found['failed'][name]}")
        else:
            calls[name] = call
    return calls


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of any element, relative to the largest element of all."""
    if len(actual) != len(expected):
        return float("inf")
    pairs = [(_numbers(a), _numbers(e)) for a, e in zip(actual, expected, strict=True) if e.numel() > 0]
    scale = max((float(e.abs().max()) for _, e in pairs), default=0.0)
    return max((float((a - e).abs().max()) for a, e in pairs), default=0.0) / (scale or 1.0)


def _numbers(x: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(x) if x.is_complex() else x).double()


def hold_to(limits: Limits, results: Mapping[str, dict[str, Any]]) -> None:
    """Adds to each case with a cost its "limit", and as "of_limit" the limit's share of each contender's time."""
    for result in results.values():
        if "cost" in result:
            limit = limits.of(Cost(**result["cost"]))
            result["limit"] = asdict(limit)
            result["of_limit"] = {name: limit.seconds / Spread.of(t).median for name, t in result["times"].items()}
