"""What the last compile did: kernels and what is in each, calls into ATen and why, memory, time, cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cuesta.reports.quantities import count_text, size_text

#: Fields that a cached artefact does not keep.
_OF_ONE_COMPILE = (*("name", "products", "times", "cache", "dump", "cuda_graph", "tier", "frozen", "fallback", "sets"),)

#: Reports that are kept of one graph that is compiled for each set of sizes.
_KEPT_OF_A_GRAPH = 32


@dataclass
class SetsOfSizes:
    """The sets of sizes that one graph was compiled for by themselves."""

    #: why it was not compiled for all at once
    reason: str
    #: how many times it was compiled, and how many of these programs are there still
    compiled: int = 0
    kept: int = 0


@dataclass
class GraphReport:
    """One compiled graph. Times are in seconds, sizes in bytes."""

    name: str
    #: name, ops (the torch ops fused in it), uses (launches of it) and bytes (its operands, of a launch) of each
    #: kernel; on a GPU also what a launch takes, and how often the block was halved because the GPU had no room for it
    kernels: list[dict[str, Any]] = field(default_factory=list)
    launches: int = 0
    #: op, reason, route and count of each ATen overload that is called, and where (file:line) the first call comes from
    aten_calls: list[dict[str, Any]] = field(default_factory=list)
    arena_bytes: int = 0
    #: whether the arena stays for the next call
    keeps_arena: bool = True
    #: the highest level above that at the call's beginning: arena, results and what ATen returns to it, less what
    #: it gives back of its arguments
    peak_bytes: int = 0
    #: what it holds at its end beside the arena: results, less the arguments that it gave back
    kept_bytes: int = 0
    #: the `limit` that was asked for, and `by` what the plan is within it, "" where it was anyhow
    memory_limit: dict[str, Any] | None = None
    #: producer, consumer, reason and bytes of each pair of neighbours that stayed two kernels
    apart: list[dict[str, Any]] = field(default_factory=list)
    #: kind, about, taken, usual, times (candidate → seconds of a call) and source ("measured", "remembered", or why
    #: neither) of each choice that max_autotune made
    choices: list[dict[str, Any]] = field(default_factory=list)
    #: the same of each kind of products of f32 (`about`) for which it was measured who computes them on this CPU
    products: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=lambda: {"hit": False, "reason": "not asked"})
    #: the folder of the graph's dump, and why it is not whole where that is so
    dump: str | None = None
    #: ops and error of each kernel that did not compile, so that its ops are called in ATen
    instead: list[dict[str, Any]] = field(default_factory=list)
    #: what became of recording it as a CUDA graph, None where nobody asked
    cuda_graph: str | None = None
    #: which tier of `tiered` runs, "full" or "first", and why; None where nobody asked
    tier: str | None = None
    #: what became of `freezing`, None where nobody asked
    frozen: str | None = None
    #: why the graph runs in Python, op by op, where it does
    fallback: str | None = None
    #: the sets of sizes that the graph is compiled for by themselves, this being one, where Dynamo made it for many
    sets: SetsOfSizes | None = None

    @property
    def specialised(self) -> str | None:
        """Why the graph is compiled for each set of sizes, where Dynamo made it for many."""
        return None if self.sets is None else self.sets.reason

    def program(self) -> dict[str, Any]:
        """The part that a cached artefact keeps: all but how this compile went."""
        kept = asdict(self)
        for passing in _OF_ONE_COMPILE:
            del kept[passing]
        return kept

    def take_program(self, kept: Mapping[str, Any]) -> None:
        """Takes over what `program` gave of an earlier compile."""
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
            yield f"  {pairs} of neighbours stayed apart; the costliest:"
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
    """The graphs compiled since the last `torch._dynamo.reset()`, in order; of one that is compiled for each set of
    sizes the last programs."""

    graphs: list[GraphReport] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"graphs": [asdict(g) | {"specialised": g.specialised} for g in self.graphs]}

    def __str__(self) -> str:
        if not self.graphs:
            return "cuesta has compiled nothing yet"
        return "\n".join(line for graph in self.graphs for line in graph.lines())


_CURRENT = Report()


def report() -> Report:
    """The report of what was compiled since the last `torch._dynamo.reset()`."""
    return Report(list(_CURRENT.graphs))


def add(graph: GraphReport) -> None:
    """Enters a graph's report; of one that is compiled for each set of sizes the last ones are kept."""
    graphs = _CURRENT.graphs
    if graph.sets is not None:
        same = [i for i, other in enumerate(graphs) if other.sets is graph.sets]
        if len(same) >= _KEPT_OF_A_GRAPH:
            del graphs[same[0]]
    graphs.append(graph)


def clear() -> None:
    """Forgets every graph."""
    _CURRENT.graphs.clear()


def choice_text(choice: Mapping[str, Any]) -> str:
    """What a choice took, and against what."""
    times, taken, usual = choice["times"], choice["taken"], choice["usual"]
    text = f"{choice['kind']} {choice['about']}: {taken}"
    if taken not in times:
        return f"{text}; {choice['source']}"
    if taken == usual:
        return f"{text}, {times[taken] * 1e6:.1f} us"
    return f"{text}, {times[taken] * 1e6:.1f} us; {usual} takes {times[usual] / times[taken]:.2f} times as long"
