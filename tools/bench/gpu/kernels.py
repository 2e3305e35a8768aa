"""Where a call's time on the GPU goes, kernel by kernel, from the profiler's events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from cuesta.tools.bench.gpu.aten_costs import AtenCall, cost
from cuesta.tools.bench.gpu.device import synchronize
from cuesta.tools.bench.gpu.peaks import Peaks

PROFILED_CALLS = 3


@dataclass(frozen=True)
class Launch:
    """A kernel's run, or a copy or a fill of memory, as the profiler saw it."""

    name: str
    seconds: float
    call: AtenCall | None = None
    """The innermost ATen op that launched it."""
    call_number: int = 0
    """Which call of an op; launches of the same one share it."""


@dataclass
class Row:
    """All runs that are alike, in one call of what was profiled."""

    name: str
    by: str
    """"cuesta", or the ATen op that called a library; "" where nobody knows."""
    seconds: float = 0.0
    count: float = 0.0
    bytes: float = 0.0
    operations: float = 0.0
    unit: str = ""
    about: str = ""
    kernels: dict[str, float] = field(default_factory=dict)
    """Seconds by name."""

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
    """What `calls` calls ran on the GPU, in the order in which it began."""
    synchronize(where)
    with profile(activities=list(activities), record_shapes=ProfilerActivity.CPU in activities) as profiler:
        for _ in range(calls):
            call()
        synchronize(where)
    return launches_of(profiler.profiler.kineto_results.events())


def launches_of(events: Iterable[Any]) -> list[Launch]:
    """The GPU's part of the profiler's events."""
    events = list(events)
    cpu = DeviceType.CPU
    # Only ops: calls of the CUDA runtime count by another numbering.
    host = {e.correlation_id(): e for e in events if e.device_type() == cpu and "::" in e.name()}
    launches = []
    for event in sorted(events, key=lambda e: e.start_ns()):
        # A range that the host names is shown on the GPU too.
        if event.device_type() == cpu or event.is_user_annotation():
            continue
        op = host.get(event.linked_correlation_id())
        call = AtenCall(op.name(), op.shapes(), op.dtypes(), op.concrete_inputs()) if op is not None else None
        launches.append(Launch(event.name(), event.duration_ns() / 1e9, call, event.linked_correlation_id()))
    return launches


def rows_of(launches: Sequence[Launch], calls: int, graphs: Sequence[dict[str, Any]]) -> list[Row]:
    """Rows in the order of their time, of one call; `graphs` are cuesta's reports, in the order in which they run."""
    ours = _our_kernels(graphs)
    seen: dict[str, int] = defaultdict(int)
    rows: dict[tuple[str, ...], Row] = {}
    costed: set[int] = set()
    for launch in launches:
        if launch.name in ours:
            # Two graphs may have kernels of one name: the first graph's run first.
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
        # Of several kernels of one op, the one that takes longest.
        row.name = max(row.kernels, key=row.kernels.__getitem__)
        row.seconds, row.count = row.seconds / calls, row.count / calls
        row.bytes, row.operations = row.bytes / calls, row.operations / calls
    return sorted(rows.values(), key=lambda row: -row.seconds)


def _our_kernels(graphs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Name of a kernel → its description, as often as a call runs it."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for graph in graphs:
        for kernel in graph["kernels"]:
            found[kernel["name"]] += [kernel] * kernel["uses"]
    return found


def _library_row(rows: dict[tuple[str, ...], Row], launch: Launch) -> Row:
    """All launches of an op on the same shapes, where its costs are known; else all of a kernel."""
    call = launch.call
    if call is not None and cost(call) is not None:
        shapes = ", ".join("x".join(map(str, shape)) for shape in call.shapes if shape)
        return rows.setdefault((call.op, shapes), Row(launch.name, call.op, about=shapes))
    op = call.op if call is not None else ""
    return rows.setdefault((launch.name, op), Row(launch.name, op))


def by_kernel(launches: Sequence[Launch], calls: int) -> list[Row]:
    """One row for each kernel's name, of one call."""
    rows: dict[str, Row] = {}
    for launch in launches:
        row = rows.setdefault(launch.name, Row(launch.name, launch.call.op if launch.call else ""))
        row.seconds += launch.seconds / calls
        row.count += 1 / calls
    return sorted(rows.values(), key=lambda row: -row.seconds)
