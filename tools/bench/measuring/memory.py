"""Measures the peak memory of a call, from torch's own allocation events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class MemoryUse:
    """Bytes above the level at the start of the call, or of a phase of the call."""

    peak: int
    phases: dict[str, int]
    """The peak within each requested `record_function` range, above the level at the start of that range."""


def measure(call: Callable[[], Any], phases: Iterable[str] = ()) -> MemoryUse:
    """Runs `call` once under the profiler.

    Counts allocations by torch's CPU allocator: tensors, and scratch in the form of tensors. A library's own calls of
    malloc are not seen. Blocks older than the call do not count, nor does freeing them: torch reports such a free only
    where it happens to know the size.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    # Freed after the profile only: the result is part of the call's memory.
    del result
    results = profiler.profiler.kineto_results
    changes = list(_changes(results.experimental_event_tree()))
    ranges = {event.name(): (event.start_ns(), event.end_ns()) for event in results.events()}
    return MemoryUse(
        peak=_peak(changes),
        phases={
            name: _peak([c for c in changes if ranges[name][0] <= c[0] <= ranges[name][1]])
            for name in phases
            if name in ranges
        },
    )


def predicted_peak(graphs: Iterable[Mapping[str, Any]]) -> int:
    """The peak that cuesta's report predicts for a call that runs each of `graphs` once, in this order."""
    level = arena = peak = 0
    for graph in graphs:
        arena = max(arena, graph["arena_bytes"])
        peak = max(peak, level + arena + graph["peak_bytes"] - graph["arena_bytes"])
        level += graph["kept_bytes"]
        if not graph["keeps_arena"]:
            arena = 0
    return int(peak)


def _changes(roots: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """(time in ns, bytes) of each block that the call itself allocates, in order; bytes are negative for a free."""
    live: dict[int, int] = {}
    for when, event in sorted(((e.start_time_ns, e.extra_fields) for e in _allocations(roots)), key=lambda e: e[0]):
        if event.alloc_size > 0:
            live[event.ptr] = event.alloc_size
            yield when, event.alloc_size
        elif event.ptr in live:
            yield when, -live.pop(event.ptr)


def _allocations(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        if event.name == "[memory]":
            yield event
        yield from _allocations(event.children)


def _peak(changes: Iterable[tuple[int, int]]) -> int:
    held = peak = 0
    for _, size in changes:
        held += size
        peak = max(peak, held)
    return peak
