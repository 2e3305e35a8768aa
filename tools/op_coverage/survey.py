"""Runs the survey of operators in several processes, and appends their records to a file of JSON lines."""

from __future__ import annotations

import functools
import json
import logging
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from cuesta.tools.fuzz.failure import Failure
from cuesta.tools.fuzz.judge import Judge
from cuesta.tools.op_coverage.check import Checked, check, count
from cuesta.tools.op_coverage.entries import Unit, spread

#: Time limit of a sample. The slowest takes a few seconds to compile.
SECONDS = 120.0

#: The reasons of acceptable calls into ATen: there is nothing to compute, or a library is the best choice.
NO_ELEMENTS = "a tensor without elements"
LIBRARY = "in the library"


@dataclass
class Record:
    """The results of a unit's samples."""

    unit: Unit
    #: number of samples that torch has
    samples: int
    #: verdict → number of samples
    forward: Counter[str] = field(default_factory=Counter)
    gradient: Counter[str] = field(default_factory=Counter)
    #: counts of samples that neither raised nor were refused: Dynamo left them entirely to eager; no call into ATen has
    #: anything to compute; all calls are to libraries that cuesta prefers to its own kernels
    untraced: int = 0
    compiled: int = 0
    library: int = 0
    #: "overload: reason" → number of samples with this call
    calls: Counter[str] = field(default_factory=Counter)
    #: a line for each sample that is not right
    problems: list[str] = field(default_factory=list)
    #: indices of samples whose values differ by more than torch.testing allows, so that f64 decided
    by_f64: list[int] = field(default_factory=list)
    commit: str = ""

    def add(self, index: int, checked: Checked) -> None:
        self.forward[checked.forward] += 1
        if checked.gradient is not None:
            self.gradient[checked.gradient] += 1
        if {checked.forward, checked.gradient} & {"wrong", "raised", "refused"}:
            verdicts = checked.forward + (f", gradient {checked.gradient}" if checked.gradient else "")
            self.problems.append(f"sample {index}: {verdicts}: {checked.message}")
        if checked.by_f64:
            self.by_f64.append(index)
        if checked.forward in ("refused", "raised"):
            return
        self.calls.update(f"{op}: {reason}" for op, reason in checked.calls)
        reasons = {reason for _, reason in checked.calls} - {NO_ELEMENTS}
        if not checked.graphs:
            self.untraced += 1
        elif not reasons:
            self.compiled += 1
        elif all(LIBRARY in reason for reason in reasons):
            self.library += 1

    def line(self) -> str:
        """The record as a line of JSON."""
        return json.dumps(vars(self) | {"unit": str(self.unit)})

    @staticmethod
    def read(line: str) -> Record:
        values = json.loads(line)
        values["unit"] = Unit.read(values["unit"])
        for name in ("forward", "gradient", "calls"):
            values[name] = Counter(values[name])
        return Record(**values)


def answer(text: str) -> Checked | int:
    """Answers a worker's request. "unit": the unit's number of samples. "unit: index": checks that sample."""
    _settle()
    name, _, index = text.partition(": ")
    unit = Unit.read(name)
    return check(unit, int(index)) if index else count(unit)


@functools.cache
def _settle() -> None:
    """Sets one thread for each process, and silences the compilers' logs: the records tell what happened."""
    torch.set_num_threads(1)
    for name in ("cuesta", "torch"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def survey(
    units: Sequence[Unit],
    most: int | None,
    processes: int,
    keep: Callable[[Record], None],
    report: Callable[[str], None],
) -> None:
    """Judges up to `most` samples of each unit; `keep` takes the records, `report` lines to print."""
    queue, lock = list(reversed(units)), threading.Lock()
    progress = _Progress(len(units), report)
    commit = _commit()

    def work() -> None:
        with Judge(answer, SECONDS) as judge:
            while True:
                with lock:
                    if not queue:
                        return
                    unit = queue.pop()
                record = _record(unit, most, judge)
                record.commit = commit
                with lock:
                    keep(record)
                    progress.add(record)

    with ThreadPoolExecutor(processes) as pool:
        for done in [pool.submit(work) for _ in range(processes)]:
            done.result()


def _record(unit: Unit, most: int | None, judge: Judge[Checked | int]) -> Record:
    number = judge(str(unit))
    if not isinstance(number, int):
        raise RuntimeError(f"the samples of {unit} cannot be made: {number}")
    record = Record(unit, number)
    for index in spread(number, most):
        checked = judge(f"{unit}: {index}")
        if isinstance(checked, Failure):
            checked = Checked("raised", message=f"{checked.kind}: {checked.message}")
        assert isinstance(checked, Checked)
        record.add(index, checked)
    return record


@dataclass
class _Progress:
    units: int
    report: Callable[[str], None]
    started: float = field(default_factory=time.monotonic)
    printed: float = 0.0
    done: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        self.done += 1
        self.verdicts += record.forward + record.gradient
        for problem in record.problems:
            if "wrong" in problem or "raised" in problem:
                self.report(f"{record.unit} {problem}")
        if time.monotonic() - self.printed > 10 or self.done == self.units:
            self.printed = time.monotonic()
            counts = ", ".join(f"{number} {verdict}" for verdict, number in self.verdicts.most_common())
            minutes = (time.monotonic() - self.started) / 60
            self.report(f"{self.done} of {self.units} entries by dtype in {minutes:.1f} min: {counts}")


def read_records(path: Path) -> dict[Unit, Record]:
    """Unit → its latest record in a file; empty if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record.unit: record for record in map(Record.read, lines)}


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Appends records to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for record in records:
            file.write(record.line() + "\n")


def _commit() -> str:
    """The commit that is checked out; empty if git does not tell one."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
