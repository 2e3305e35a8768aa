"""What is measured of one case on a CPU in this process: times, differences from eager, and the least it must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from cuesta.tools.bench.backends import fallbacks, one_line
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.cost import Cost, cost_of
from cuesta.tools.bench.limits import Limits
from cuesta.tools.bench.timing import Spread, interleaved
from cuesta.tools.bench.workload import BenchCase

Progress = Callable[[str], None]


def time_case(case: BenchCase, contenders: Sequence[str], repeats: int | None, progress: Progress) -> dict[str, Any]:
    """{"times": {contender: seconds per round}, "errors": {contender: difference from eager}, "cost": bytes and
    operations as a Cost has them, "failed": {contender, or "cost": why}}."""
    progress(f"{case.name}: build")
    workload = case.make()
    calls: dict[str, Callable[[], Any]] = {}
    found: dict[str, Any] = {"times": {}, "errors": {}, "failed": {}}
    with torch.set_grad_enabled(bool(workload.parameters)):
        reference = workload.results(workload.compiled("eager")())
        try:
            found["cost"] = asdict(cost_of(workload))
        except Exception as error:
            found["failed"]["cost"] = one_line(error)
            progress(f"{case.name}: its cost is not known: {found['failed']['cost']}")
        for name in contenders:
            progress(f"{case.name}: first calls, {name}")
            contender = Contender.parse(name)
            try:
                call = workload.compiled(contender.backend, contender.form)
                found["errors"][name] = difference(workload.results(call()), reference)
                call()
                if contender.backend == "cuesta" and (reasons := fallbacks()):
                    raise RuntimeError(f"not compiled, but run op by op in Python: {reasons[0]}")
            except Exception as error:
                found["failed"][name] = one_line(error)
                progress(f"{case.name}: {name} failed: {found['failed'][name]}")
            else:
                calls[name] = call
        progress(f"{case.name}: time")
        if calls:
            found["times"] = interleaved(calls, repeats)
    torch._dynamo.reset()
    return found


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of any element, relative to the largest element of all."""
    if len(actual) != len(expected):
        return float("inf")
    pairs = [(a.double(), e.double()) for a, e in zip(actual, expected, strict=True) if e.numel() > 0]
    scale = max((float(e.abs().max()) for _, e in pairs), default=0.0)
    return max((float((a - e).abs().max()) for a, e in pairs), default=0.0) / (scale or 1.0)


def hold_to(limits: Limits, results: Mapping[str, dict[str, Any]]) -> None:
    """Adds to each case with a cost its "limit", and as "of_limit" what share of each contender's time that is."""
    for result in results.values():
        if "cost" in result:
            limit = limits.of(Cost(**result["cost"]))
            result["limit"] = asdict(limit)
            result["of_limit"] = {name: limit.seconds / Spread.of(t).median for name, t in result["times"].items()}
