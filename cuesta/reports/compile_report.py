"""Holds the report of the last compile: kernels with their ops, calls into ATen with reasons, memory, times, cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict, cast

from cuesta.reports.quantities import count_text, size_text
from cuesta.runtime.schema.report import Apart, AtenCall, Choice, Instead, Kernel, MemoryLimit
from cuesta.runtime.schema.report import Report as StoredReport

#: Fields that a cached artefact does not keep.
_OF_ONE_COMPILE = (
    *("name", "products", "times", "cache", "dump", "cuda_graph", "tier", "elsewhere", "frozen", "fallback", "sets"),
)

#: The most reports that are kept of one graph that is compiled for each set of sizes.
_KEPT_OF_A_GRAPH = 32


class CacheOutcome(TypedDict):
    """Whether the program came from the cache, and why or why not."""

    hit: bool
    reason: str


@dataclass
class SetsOfSizes:
    """The sets of sizes for which one graph was compiled separately."""

    #: why the graph was not compiled for all sizes at once
    reason: str
    #: how many times the graph was compiled, and how many of these programs still exist
    compiled: int = 0
    kept: int = 0


@dataclass
class GraphReport:
    """One compiled graph. Times are in seconds, sizes in bytes."""

    name: str
    #: name, ops (the torch ops fused in the kernel), uses (its launches) and bytes (of a launch's operands) of each
    #: kernel; on a GPU also the resources of a launch, and how often the block was halved because the GPU had no room
    #: for it
    kernels: list[Kernel] = field(default_factory=list)
    launches: int = 0
    #: op, reason, route and count of each ATen overload that is called, and where (file:line) the first call comes from
    aten_calls: list[AtenCall] = field(default_factory=list)
    arena_bytes: int = 0
    #: whether the arena is kept for the next call
    keeps_arena: bool = True
    #: the call's peak memory above that at its beginning: arena, results and memory that ATen allocates, less arguments
    #: that the call has freed
    peak_bytes: int = 0
    #: memory that the call holds at its end besides the arena: results, less arguments that it has freed
    kept_bytes: int = 0
    #: the `limit` that was asked for, and `by` which means the plan is within it ("" if the usual plan was)
    memory_limit: MemoryLimit | None = None
    #: producer, consumer, reason and bytes of each pair of neighbours that were not fused
    apart: list[Apart] = field(default_factory=list)
    #: kind, about, taken, usual, times (candidate → seconds of a call) and source ("measured", "remembered", or why
    #: neither) of each choice that max_autotune made
    choices: list[Choice] = field(default_factory=list)
    #: the same fields for each kind of f32 products (`about`) for which it was measured who computes them on this CPU
    products: list[Choice] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    cache: CacheOutcome = field(default_factory=lambda: CacheOutcome(hit=False, reason="not asked"))
    #: the folder of the graph's dump, and why the dump is incomplete if it is
    dump: str | None = None
    #: ops and error of each kernel that did not compile; its ops are called in ATen
    instead: list[Instead] = field(default_factory=list)
    #: the outcome of recording the program as a CUDA graph; None if nobody asked
    cuda_graph: str | None = None
    #: the tier of `tiered` that runs, "full" or "first", and why; None if nobody asked
    tier: str | None = None
    #: where the program was compiled, if not in this process
    elsewhere: str | None = None
    #: the outcome of `freezing`; None if nobody asked
    frozen: str | None = None
    #: why the graph runs op by op in Python, if it does
    fallback: str | None = None
    #: the sets of sizes for which the graph is compiled separately (this report is for one), if Dynamo made the graph
    #: for many
    sets: SetsOfSizes | None = None

    @property
    def specialised(self) -> str | None:
        """Why the graph is compiled for each set of sizes, if Dynamo made it for many."""
        return None if self.sets is None else self.sets.reason

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Adds the seconds that the context takes to the stage's time, less those spent on measuring candidates, which
        have an entry of their own."""
        start, measured = time.perf_counter(), self.times.get("measuring", 0.0)
        try:
            yield
        finally:
            within = self.times.get("measuring", 0.0) - measured
            self.times[stage] = self.times.get(stage, 0.0) + time.perf_counter() - start - within

    def program(self) -> StoredReport:
        """The fields that a cached artefact keeps: all but those of this one compile."""
        kept = asdict(self)
        for passing in _OF_ONE_COMPILE:
            del kept[passing]
        return cast(StoredReport, kept)

    def take_program(self, kept: StoredReport) -> None:
        """Sets the fields that `program` returned in an earlier compile."""
        for name, value in kept.items():
            setattr(self, name, value)

    def lines(self) -> Iterator[str]:
        yield f"{self.name}: {self._summary()}"
        if self.fallback:
            yield f"  runs op by op in Python: {self.fallback}"
        if self.sets:
            counts = f"{self.sets.compiled} so far, {self.sets.kept} kept"
            yield f"  compiled for each set of sizes ({counts}): {self.sets.reason}"
        width = max((len(k["name"]) for k in self.kernels), default=0)
        for kernel in self.kernels:
            times = kernel.get("halvings")
            halved = f"  (block halved x{times}: too large for the GPU, or for Triton)" if times else ""
            yield f"  kernel {kernel['name']:<{width}}  x{kernel['uses']:<3} {' + '.join(kernel['ops'])}{halved}"
        for call in self.aten_calls:
            yield f"  ATen   {call['op']} x{call['count']} ({call['route']}): {call['reason']}"
        for failed in self.instead:
            yield f"  no kernel for {', '.join(failed['ops'])}, called in ATen instead: {failed['error']}"
        if self.apart:
            worst = sorted(self.apart, key=lambda r: -r["bytes"])[:3]
            pairs = count_text(len(self.apart), "pair")
            yield f"  {pairs} of neighbours were not fused; the costliest:"
            for pair in worst:
                yield f"    {pair['producer']} | {pair['consumer']}: {pair['reason']} ({size_text(pair['bytes'])})"
        for choice in self.products:
            yield f"  {choice_text(choice)}"
        yield from self._choice_lines()
        yield f"  memory: arena {size_text(self.arena_bytes)}, peak {size_text(self.peak_bytes)}{self._limit_text()}"
        hit = "hit" if self.cache["hit"] else f"miss ({self.cache['reason']})"
        total = sum(self.times.values())
        stages = ", ".join(f"{k} {v * 1e3:.0f}" for k, v in self.times.items())
        yield f"  cache: {hit}; {total * 1e3:.0f} ms: {stages}"
        if self.tier:
            yield f"  tier: {self.tier}"
        if self.elsewhere:
            yield f"  compiled {self.elsewhere}"
        if self.frozen:
            yield f"  freezing: {self.frozen}"
        if self.cuda_graph:
            yield f"  CUDA graph: {self.cuda_graph}"
        if self.dump:
            yield f"  dump: {self.dump}"

    def _choice_lines(self) -> Iterator[str]:
        if not self.choices:
            return
        others = [choice for choice in self.choices if choice["taken"] != choice["usual"]]
        made = count_text(len(self.choices), "choice")
        yield f"  max_autotune: {made}, {len(others)} other than the rule of thumb's"
        for choice in others:
            yield f"    {choice_text(choice)}"

    def _limit_text(self) -> str:
        if self.memory_limit is None:
            return ""
        by = self.memory_limit["by"]
        return f" (limit {size_text(self.memory_limit['limit'])}{f': {by}' if by else ''})"

    def _summary(self) -> str:
        calls = sum(c["count"] for c in self.aten_calls)
        return ", ".join(
            (
                count_text(len(self.kernels), "kernel"),
                count_text(self.launches, "launch", "launches"),
                count_text(calls, "ATen call"),
            )
        )


@dataclass
class Report:
    """The graphs compiled since the last `torch.compiler.reset()`, in order. Of a graph that is compiled for each set
    of sizes, the last programs."""

    graphs: list[GraphReport] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"graphs": [asdict(g) | {"specialised": g.specialised} for g in self.graphs]}

    def __str__(self) -> str:
        if not self.graphs:
            return "cuesta has compiled nothing yet"
        return "\n".join(line for graph in self.graphs for line in graph.lines())


_CURRENT = Report()


def report() -> Report:
    """The report of what was compiled since the last `torch.compiler.reset()`."""
    return Report(list(_CURRENT.graphs))


def add(graph: GraphReport) -> None:
    """Adds a graph's report. Of a graph that is compiled for each set of sizes, only the last reports are kept."""
    graphs = _CURRENT.graphs
    if graph.sets is not None:
        same = [i for i, other in enumerate(graphs) if other.sets is graph.sets]
        if len(same) >= _KEPT_OF_A_GRAPH:
            del graphs[same[0]]
    graphs.append(graph)


def clear() -> None:
    """Forgets every graph."""
    _CURRENT.graphs.clear()


def choice_text(choice: Choice) -> str:
    """The candidate that a choice took and its time, against the usual one."""
    times, taken, usual = choice["times"], choice["taken"], choice["usual"]
    text = f"{choice['kind']} {choice['about']}: {taken}"
    if taken not in times:
        return f"{text}; {choice['source']}"
    if taken == usual:
        return f"{text}, {times[taken] * 1e6:.1f} us"
    return f"{text}, {times[taken] * 1e6:.1f} us; {usual} takes {times[usual] / times[taken]:.2f} times as long"
