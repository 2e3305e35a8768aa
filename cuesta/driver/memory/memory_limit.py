"""Implements `options={"memory_limit": bytes}` for one program: finds a plan within the limit, or raises an error.

The usual plan is made first. If its peak is too high, these are tried, each on top of the previous, until a plan is
within the limit:

1. Each buffer, however small, is placed outside of the arena and freed when dead if that lowers the peak.
2. The host function runs its steps in another order: those that free most memory first.
3. For training (step_memory.py): the forward graph saves less, and the backward graph recomputes more.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuesta._mlir import func, ir
from cuesta.dialects.graph_function import MEMORY, donated_arguments
from cuesta.dialects.host import Call, Launch
from cuesta.driver.dump.reproducer import as_bytecode
from cuesta.errors import MemoryLimitError
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.plan_memory.lifetimes import Base, bases_of
from cuesta.passes.plan_memory.timeline import Timeline
from cuesta.reports.compile_report import GraphReport
from cuesta.reports.quantities import size_text

#: How many buffers an error names.
NAMED = 5


_FREED = {"plan-memory": {"small_call": 0, "caller_limit": 0, "spill_from": 0, "release_limit": 0}}
#: Ways to lower the peak: description → the options of passes that it sets.
_WAYS: dict[str, Mapping[str, Mapping[str, object]]] = {
    "": {},
    "buffers freed when dead": _FREED,
    "buffers freed when dead and another order of steps": {**_FREED, "form-kernels": {"lower_peak": True}},
}


def planned_within(module: ir.Module, pipeline: Pipeline, limit: int, report: GraphReport) -> ir.Module:
    """Runs the stage that plans memory on `module`, with a peak of at most `limit` bytes; the report says how.

    Raises MemoryLimitError where no way is within the limit.
    """
    kept = as_bytecode(module)
    lowest = None
    for what, ways in _WAYS.items():
        tried = ir.Module.parse(kept, module.context)
        other = pipeline
        for name, options in ways.items():
            other = other.with_options(name, **options)
        other.run(tried, verify=False)
        peak = planned_memory(tried)["peak"]
        if peak <= limit:
            report.memory_limit = {"limit": limit, "by": what}
            return tried
        lowest = peak if lowest is None else min(lowest, peak)
    # The error names the largest live buffers of the last way, read before plan-memory turns buffers into offsets.
    *passes, _ = pipeline.passes
    unplanned = ir.Module.parse(kept, module.context)
    for step in passes:
        step.apply(unplanned, verify=False)
    assert lowest is not None
    held = ", ".join(f"{size_text(nbytes)} of {writer}" for nbytes, writer in largest_at_peak(_host_of(unplanned)))
    raise MemoryLimitError(
        f"memory_limit: a call of this {report.name} graph would take {size_text(lowest)} ({lowest} bytes) beside its "
        f"arguments, and may take {size_text(limit)} ({limit} bytes). The largest buffers at the peak: "
        f"{held or 'its results'}. Nothing of the graph has run."
    )


def largest_at_peak(host: func.FuncOp) -> list[tuple[int, str]]:
    """The largest buffers that are live at a host function's peak: their bytes, and the ops that write them."""
    with host.context:
        block = host.regions[0].blocks[0]
        bases = bases_of(block, donated_arguments(host))
        timeline = Timeline.of(block, bases)
    levels = timeline.levels
    step = levels.index(max(levels))
    live = [b for b in bases if timeline.spans[b.value].first <= step <= timeline.spans[b.value].last]
    held = sorted((b for b in live if not b.is_argument), key=lambda b: -b.nbytes)
    return [(base.nbytes, _writer(base)) for base in held[:NAMED]]


def _writer(base: Base) -> str:
    op = base.users[0] if base.is_alloc and base.users else base.value.owner
    if Launch.matches(op):
        return f"kernel {Launch.kernel.of(op)}"
    return Call.overload.find(op) or op.name


def _host_of(module: ir.Module) -> func.FuncOp:
    (host,) = functions(module)
    return host


def planned_memory(module: ir.Module) -> dict[str, int]:
    """The `cuesta.memory` that plan-memory has given a module's one host function."""
    return MEMORY.of(_host_of(module))
