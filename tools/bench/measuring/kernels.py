"""Divides a call's time on the GPU among its kernels, from the profiler's events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from cuesta.tools.bench.measuring.aten_costs import AtenCall, cost
from cuesta.tools.bench.measuring.device import synchronize
from cuesta.tools.bench.measuring.peaks import Peaks
from cuesta.torch_private.logs import DeviceType

PROFILED_CALLS = 3


@dataclass(frozen=True)
class Launch:
    """A run of a kernel, or a copy or fill of memory, as the profiler recorded it."""

    name: str
    seconds: float
    call: AtenCall | None = None
    """The innermost ATen op that launched it."""
    call_number: int = 0
    """Identifies the call of the op: all launches of one call share the number."""


@dataclass
class Row:
    """All similar launches in one profiled call, added up."""

    name: str
    by: str
    """"cuesta", or the ATen op that called a library; "" if unknown."""
    seconds: float = 0.0
    count: float = 0.0
    bytes: float = 0.0
    operations: float = 0.0
    unit: str = ""
    about: str = ""
    kernels: dict[str, float] = field(default_factory=dict)
    """Kernel name → seconds."""

    def as_dict(self, peaks: Peaks | None) -> dict[str, Any]:
        """The row as JSON values, with the achieved share of the device's bandwidth and operations."""
        told: dict[str, Any] = asdict(self)
        if peaks and self.seconds:
            told["bandwidth_share"] = self.bytes / self.seconds / peaks.bandwidth if self.bytes else None
            rate = peaks.operations.get(self.unit)
            told["operations_share"] = self.operations / self.seconds / rate if rate and self.operations else None
        return told


def busy(call: Callable[[], Any], where: torch.device) -> dict[str, Any]:
    """{"kernels": launches, "busy": seconds within them} of one call; nothing on the CPU."""
    if where.type != "cuda":
        return {}
    launches = record(call, where, 1, [ProfilerActivity.CUDA])
    return {"kernels": len(launches), "busy": sum(launch.seconds for launch in launches)}


def record(
    call: Callable[[], Any], where: torch.device, calls: int, activities: Sequence[ProfilerActivity]
) -> list[Launch]:
    """The launches of `calls` calls on the GPU, by their start."""
    synchronize(where)
    with profile(activities=list(activities), record_shapes=ProfilerActivity.CPU in activities) as profiler:
        for _ in range(calls):
            call()
        synchronize(where)
    return launches_of(profiler.profiler.kineto_results.events())


def launches_of(events: Iterable[Any]) -> list[Launch]:
    """The launches on the GPU among the profiler's events."""
    events = list(events)
    cpu = DeviceType.CPU
    # Only ops: the correlation ids of CUDA runtime calls are another numbering.
    host = {e.correlation_id(): e for e in events if e.device_type() == cpu and "::" in e.name()}
    launches = []
    for event in sorted(events, key=lambda e: e.start_ns()):
        # A user annotation of the host appears among the GPU's events too.
        if event.device_type() == cpu or event.is_user_annotation():
            continue
        op = host.get(event.linked_correlation_id())
        call = AtenCall(op.name(), op.shapes(), op.dtypes(), op.concrete_inputs()) if op is not None else None
        launches.append(Launch(event.name(), event.duration_ns() / 1e9, call, event.linked_correlation_id()))
    return launches


def rows_of(launches: Sequence[Launch], calls: int, graphs: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows for one call, longest time first; `graphs` are cuesta's reports, in the order in which they run."""
    ours = _our_kernels(graphs)
    seen: dict[str, int] = defaultdict(int)
    rows: dict[tuple[str, ...], Row] = {}
    costed: set[int] = set()
    for launch in launches:
        if launch.name in ours:
            # Kernels of two graphs may share a name. Their launches have the order of the graphs.
            uses = ours[launch.name]
            kernel = uses[seen[launch.name] % len(uses)]
            seen[launch.name] += 1
            about = " + ".join(kernel["ops"])
            row = rows.setdefault((launch.name, "cuesta", about), Row(launch.name, "cuesta", about=about))
            row.bytes += kernel.get("bytes", 0)
        else:
            row = _library_row(rows, launch)
            if launch.call is not None and launch.call_number not in costed:
                costed.add(launch.call_number)
                price = cost(launch.call)
                if price is not None:
                    row.bytes += price.bytes
                    row.operations += price.operations
                    row.unit = price.unit
        row.seconds += launch.seconds
        row.count += 1
        row.kernels[launch.name] = row.kernels.get(launch.name, 0.0) + launch.seconds
    for row in rows.values():
        # If one op launches several kernels, the longest names the row.
        row.name = max(row.kernels, key=row.kernels.__getitem__)
        row.seconds, row.count = row.seconds / calls, row.count / calls
        row.bytes, row.operations = row.bytes / calls, row.operations / calls
    return sorted(rows.values(), key=lambda row: -row.seconds)


def _our_kernels(graphs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Kernel name → its descriptions, each repeated as often as a call runs the kernel."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for graph in graphs:
        for kernel in graph["kernels"]:
            found[kernel["name"]] += [kernel] * kernel["uses"]
    return found


def _library_row(rows: dict[tuple[str, ...], Row], launch: Launch) -> Row:
    """The row of a launch: one per op and shapes if the op's cost is known, else one per kernel name and op."""
    call = launch.call
    if call is not None and cost(call) is not None:
        shapes = ", ".join("x".join(map(str, shape)) for shape in call.shapes if shape)
        return rows.setdefault((call.op, shapes), Row(launch.name, call.op, about=shapes))
    op = call.op if call is not None else ""
    return rows.setdefault((launch.name, op), Row(launch.name, op))


def by_kernel(launches: Sequence[Launch], calls: int) -> list[Row]:
    """One row for each kernel name, averaged to one call."""
    rows: dict[str, Row] = {}
    for launch in launches:
        row = rows.setdefault(launch.name, Row(launch.name, launch.call.op if launch.call else ""))
        row.seconds += launch.seconds / calls
        row.count += 1 / calls
    return sorted(rows.values(), key=lambda row: -row.seconds)
