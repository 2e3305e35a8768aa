"""Runs the fuzzer: makes a random graph or program from each seed, as text, judges it, and writes failures to files."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuesta.tools.fuzz.calls.call_programs import make_calls
from cuesta.tools.fuzz.calls.call_text import each_call, smaller_calls
from cuesta.tools.fuzz.calls.check_calls import call_in_eager, check_calls
from cuesta.tools.fuzz.calls.memories import HEAP_CHECKS
from cuesta.tools.fuzz.failure import Failure, Note, Tally, Unjudged, Verdict
from cuesta.tools.fuzz.files.check_file import check_file, make_file, run_unchanged, smaller_files
from cuesta.tools.fuzz.graphs.check_graph import INT_RANGE, check_graph, run_reference
from cuesta.tools.fuzz.graphs.random_graphs import make_blocks_graph, make_graph
from cuesta.tools.fuzz.graphs.smaller_graphs import smaller_graphs
from cuesta.tools.fuzz.judge import CRASHES, HANGS, SECONDS, Judge
from cuesta.tools.fuzz.programs.check_program import check_program, run_in_torch
from cuesta.tools.fuzz.programs.program import on_device, smaller_programs
from cuesta.tools.fuzz.programs.random_programs import make_program, make_sized_program
from cuesta.tools.fuzz.shrink import Smaller, shrink


@dataclass(frozen=True)
class ReferenceOnly:
    """Request to a Judge: runs only the reference of `text`, not the compiled program."""

    text: str


def _no_parts(text: str) -> list[str]:
    """`Kind.parts` of a kind whose texts are judged as a whole. Not a lambda, because a kind is pickled."""
    return []


@dataclass(frozen=True)
class Kind:
    """A kind of text to make and judge: graphs of the cuesta dialect (compiled for the CPU, or for a GPU and run block
    by block), torch programs (called once, or with several sizes), many calls of one function, or changed files."""

    name: str
    make: Callable[[int], str]
    check: Callable[..., Verdict]
    #: runs only what a text is compared with
    reference: Callable[[str], object]
    smaller: Smaller
    suffix: str
    comment: str
    #: whether the texts name a device, so that they can be judged on another one than the CPU
    on_devices: bool = False
    #: the parts of a text that are judged one by one after the whole text crashed or hung its process
    parts: Callable[[str], list[str]] = _no_parts
    #: environment variables of the judging process
    environment: Mapping[str, str] = field(default_factory=dict)
    #: time limit for one text
    seconds: float = SECONDS
    #: whether the compiled programs check each memory access
    checked: bool = False

    def checking(self) -> Kind:
        """The same kind, compiled to check each memory access."""
        return dataclasses.replace(self, check=functools.partial(self.check, checked=True), checked=True)

    def answer(self, request: int | str | ReferenceOnly) -> Any:
        """Answers a request in a Judge's process: makes the text of a seed, runs a reference, or judges a text."""
        if isinstance(request, ReferenceOnly):
            self.reference(request.text)
            return None
        return self.make(request) if isinstance(request, int) else self.check(request)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("graphs", make_graph, check_graph, run_reference, smaller_graphs, ".mlir", "//"),
        Kind("blocks", make_blocks_graph, check_graph, run_reference, smaller_graphs, ".mlir", "//"),
        Kind("programs", make_program, check_program, run_in_torch, smaller_programs, ".py", "#", on_devices=True),
        Kind(
            "calls",
            make_calls,
            check_calls,
            call_in_eager,
            smaller_calls,
            ".calls.py",
            "#",
            parts=each_call,
            environment=HEAP_CHECKS,
            seconds=3 * SECONDS,
        ),
        Kind("sizes", make_sized_program, check_program, run_in_torch, smaller_programs, ".py", "#", on_devices=True),
        Kind("files", make_file, check_file, run_unchanged, smaller_files, ".json", "#"),
    )
}


@dataclass
class Hunt:
    """The state of one run. `report` prints a line, `folder` receives a file for each failure, and programs run on
    `device`."""

    kind: Kind
    folder: Path
    report: Callable[[str], None]
    device: str = "cpu"
    judged: int = 0
    #: reason → number of texts that could not be judged
    unjudged: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    #: whether Ctrl-C ended the run
    interrupted: bool = False
    notes: Counter[str] = field(default_factory=Counter)
    _kinds: set[str] = field(default_factory=set)
    #: file name without number → number of failures that have a file
    _kept: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    #: held while reducing: graphs are reduced with MLIR, which is not thread-safe here
    _reducing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, seeds: Iterable[int], processes: int = 1) -> None:
        """Judges every seed, or those before Ctrl-C, in `processes` processes; reduces the first failure of a kind."""
        left = iter(seeds)
        # Divides the cores among the processes: a thread per core in each would oversubscribe the machine.
        own = max(1, (os.cpu_count() or 1) // processes)
        with ThreadPoolExecutor(processes) as threads:
            try:
                for thread in [threads.submit(self._judge, left, own) for _ in range(processes)]:
                    thread.result()
            except KeyboardInterrupt:
                self.interrupted = True  # texts in progress are finished, and no new ones are begun

    def _judge(self, seeds: Iterator[int], threads: int) -> None:
        kind = self.kind
        with Judge(kind.answer, kind.seconds, threads, kind.environment) as judge:
            while (seed := self._next(seeds)) is not None:
                try:
                    text = self._made(seed, judge)
                    found = judge(text)
                    if self._take_parts(seed, text, found, judge):
                        found = None
                    found = _confirmed(text, found, judge)
                except Unjudged as problem:
                    with self._lock:
                        self.unjudged[str(problem).partition(":")[0]] += 1
                    continue
                with self._lock:
                    self.judged += 1
                self._take(seed, text, found, judge)

    def _take(self, seed: int, text: str, found: Verdict, judge: Judge[Any]) -> None:
        """Counts a verdict, and keeps what failed."""
        if isinstance(found, Note):
            self.notes[found.text] += 1
        elif isinstance(found, Tally):
            with self._lock:
                self.notes.update(found.counts)
            for each, failure in found.failures:
                self._keep(seed, each, failure, judge)
        elif found is not None:
            self._keep(seed, text, found, judge)

    def _take_parts(self, seed: int, text: str, found: Verdict, judge: Judge[Any]) -> bool:
        """Judges each part of a text that crashed or hung its process; returns whether any part fails."""
        before = self.failures
        if _takes_process(found):
            for part in self.kind.parts(text):
                try:
                    verdict = _verdict(part, judge)
                except Unjudged:
                    continue
                if isinstance(verdict, Failure):
                    self._keep(seed, part, verdict, judge)
                else:
                    self._take(seed, part, verdict, judge)
        return self.failures > before

    def _made(self, seed: int, judge: Judge[Any]) -> str:
        text = judge(seed)
        if isinstance(text, Failure):  # making a program runs it in eager
            raise Unjudged(f"torch {text.kind}")
        assert isinstance(text, str)
        return on_device(text, self.device) if self.kind.on_devices else text

    def _next(self, seeds: Iterator[int]) -> int | None:
        with self._lock:
            return None if self.interrupted else next(seeds, None)

    def _keep(self, seed: int, text: str, failure: Failure, judge: Judge[Verdict]) -> None:
        with self._lock:
            self.failures += 1
            new = failure.kind not in self._kinds
            self._kinds.add(failure.kind)
        if new:
            with self._reducing:
                text = shrink(text, failure, lambda smaller: _verdict(smaller, judge), self.kind.smaller)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(seed)
        path.write_text(with_header(self.kind, text, failure))
        self.report(f"seed {seed}: {failure.kind}: {failure.message.partition(chr(10))[0][:200]} -> {path}")

    def _path(self, seed: int) -> Path:
        """A new file for each failure of a seed."""
        name = f"{self.kind.name.removesuffix('s')}_{seed}"
        with self._lock:
            self._kept[name] += 1
            number = f"_{self._kept[name]}" if self._kept[name] > 1 else ""
        return self.folder / f"{name}{number}{self.kind.suffix}"


def _verdict(text: str, judge: Judge[Any]) -> Verdict:
    return _confirmed(text, judge(text), judge)


def _confirmed(text: str, found: Verdict, judge: Judge[Any]) -> Verdict:
    """The verdict as given. Raises Unjudged if the reference alone crashes or hangs its process as well."""
    if _takes_process(found):
        alone = judge(ReferenceOnly(text))
        if isinstance(alone, Failure):
            raise Unjudged(f"eager {alone.kind}: {alone.message}")
    return found


def _takes_process(found: Verdict) -> bool:
    return isinstance(found, Failure) and found.kind in (CRASHES, HANGS)


def with_header(kind: Kind, text: str, failure: Failure) -> str:
    """The text behind comments that say how to run the file and what goes wrong."""
    checked = " --checked" if kind.checked else ""
    if kind.suffix == ".mlir":
        low, high = INT_RANGE
        run = f"// RUN: cuesta-run{checked} --compare-reference --int-range={low}:{high} %s"
    else:
        run = f"# python -m cuesta.tools.fuzz{checked} --replay FILE"
    told = failure.message.partition("\n")[0][:200]
    return f"{run}\n\n{kind.comment} {failure.kind}: {told}\n{text}"


class Progress:
    """Reports the progress of a hunt every few seconds."""

    def __init__(self, hunt: Hunt, count: int, seconds: float = 5.0) -> None:
        self.hunt, self.count, self.seconds = hunt, count, seconds
        self.started = self.printed = time.monotonic()

    def seeds(self, first: int) -> Iterable[int]:
        for done, seed in enumerate(range(first, first + self.count)):
            if time.monotonic() - self.printed > self.seconds:
                self.printed = time.monotonic()
                self.hunt.report(self.line(done))
            yield seed
        self.hunt.report(self.line(self.count))

    def line(self, done: int) -> str:
        rate = done / max(time.monotonic() - self.started, 1e-9)
        unjudged = self.hunt.unjudged.total()
        left_out = f", {unjudged} that cannot be judged" if unjudged else ""
        name = self.hunt.kind.name
        return f"{done} of {self.count} {name}, {rate:.1f} a second, {self.hunt.failures} failures{left_out}"
