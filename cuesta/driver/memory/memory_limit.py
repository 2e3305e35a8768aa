"""`options={"memory_limit": bytes}`: a plan that holds no more, or an error before anything runs.

A plan is made as always. Where it takes too much, these are tried, each on top of the last, until one is within:

1. every buffer that the peak is lower without lies outside the arena and is freed when dead, however small;
2. the host function computes things in another order, what lets go of most first;
3. for training (step_memory.py): less is saved for the backward graph, and more computed again there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects.donated import donated_arguments
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


@dataclass(frozen=True)
class _Way:
    """A way to hold less: what it does, and with which options of passes."""

    what: str
    options: Mapping[str, Mapping[str, object]]


_FREED = {"plan-memory": {"small_call": 0, "caller_limit": 0, "spill_from": 0, "release_limit": 0}}
_WAYS = (
    _Way("", {}),
    _Way("buffers freed when dead", _FREED),
    _Way("buffers freed when dead and another order of steps", {**_FREED, "form-kernels": {"lower_peak": True}}),
)


def planned_within(module: ir.Module, pipeline: Pipeline, limit: int, report: GraphReport) -> ir.Module:
    """`module` after the stage whose pipeline plans memory, with a peak of at most `limit` bytes; says in `report` how.

    Raises MemoryLimitError where no way there is within.
    """
    kept = as_bytecode(module)
    lowest = None
    for way in _WAYS:
        tried = ir.Module.parse(kept, module.context)
        other = pipeline
        for name, options in way.options.items():
            other = other.with_options(name, **options)
        other.run(tried, verify=False)
        peak = _peak(tried)
        if peak <= limit:
            report.memory_limit = {"limit": limit, "by": way.what}
            return tried
        lowest = peak if lowest is None else min(lowest, peak)
    # What is held at once is told by the plan that came last, before it became offsets.
    *passes, _ = pipeline.passes
    unplanned = ir.Module.parse(kept, module.context)
    for step in passes:
        step.apply(unplanned, verify=False)
    assert lowest is not None
    held = ", ".join(f"{size_text(nbytes)} of {writer}" for nbytes, writer in largest_at_peak(_host_of(unplanned)))
    raise MemoryLimitError(
        f"memory_limit: a call of this {report.name} graph would take {size_text(lowest)} ({lowest} bytes) beside its "
        f"arguments, and may take {size_text(limit)} ({limit} bytes); most is held at once by {held or 'its results'}; "
        f"nothing of it has run"
    )


def largest_at_peak(host: func.FuncOp) -> list[tuple[int, str]]:
    """The largest buffers that a host function holds at the step at which it holds most: bytes, and who writes them."""
    with host.context:
        block = host.regions[0].blocks[0]
        bases = bases_of(block, donated_arguments(host))
        timeline = Timeline.of(block, bases)
    levels = [inside + outside for inside, outside in zip(timeline.inside, timeline.outside, strict=True)]
    step = levels.index(max(levels))
    live = [b for b in bases if timeline.spans[b.value].first <= step <= timeline.spans[b.value].last]
    held = sorted((b for b in live if not b.is_argument), key=lambda b: -b.nbytes)
    return [(base.nbytes, _writer(base)) for base in held[:NAMED]]


def _writer(base: Base) -> str:
    op = base.users[0] if base.is_alloc and base.users else base.value.owner
    if op.name == "host.launch":
        return f"kernel {list(op.attributes['kernel'].value)[-1]}"
    return str(op.attributes["overload"].value) if "overload" in op.attributes else op.name


def _host_of(module: ir.Module) -> func.FuncOp:
    (host,) = functions(module)
    return host


def _peak(module: ir.Module) -> int:
    memory = _host_of(module).attributes["cuesta.memory"]
    return int(memory["peak"].value)
