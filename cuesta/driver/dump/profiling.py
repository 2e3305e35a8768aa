"""Shows a program as an event in torch's profiler, named for the graph and the Python line that it came from."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta.driver.calling import Run
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.schema.program import Step
from cuesta.torch_private.logs import RecordFunctionFast, is_profiling

#: Kernels that an event's name lists.
_NAMED = 3


def profiled(run: Run, report: GraphReport, steps: Sequence[Step]) -> Run:
    """Wraps `run` in a profiler event while the profiler is on.

    Below it appear the calls into ATen that go through torch's dispatcher. CPU kernels and matrix products are called
    natively and have no events of their own.
    """
    event = RecordFunctionFast
    name = event_name(report, steps)

    def call(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if not is_profiling():
            return run(tensors)
        with event(name):
            return run(tensors)

    return call


def event_name(report: GraphReport, steps: Sequence[Step]) -> str:
    """`cuesta forward model.py:31 [gelu, add_native_layer_norm, and 2 more]`."""
    where = next((s["where"] for s in steps if s["kind"] != "check" and s["where"]), "")
    kernels = [kernel["name"] for kernel in report.kernels]
    more = [f"and {len(kernels) - _NAMED} more"] if len(kernels) > _NAMED else []
    listed = ", ".join([*kernels[:_NAMED], *more])
    return " ".join(["cuesta", report.name, *([where.rpartition("/")[2]] if where else []), f"[{listed}]"])
