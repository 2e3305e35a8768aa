"""Programs whose machine code LLVM's threads still make while torch goes on with a compile: it makes guards, keeps
what it traced, has other graphs compiled. Who calls one waits.

Nobody is left with half a program: a process that forks, a compile that begins with more code, and who times something
wait for all of them first (`settle`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch

from cuesta.errors import CuestaError
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable


@dataclass(frozen=True)
class Begun:
    """A program of which LLVM's threads make the code."""

    #: the artefact's "program"
    program: dict[str, Any]
    #: waits for them; raises CompileError where LLVM makes none
    finish: Callable[[], Artefact]


#: Of the error of making or loading a program's code, what is called instead; raises CuestaError where nothing is.
Otherwise: TypeAlias = Callable[[CuestaError], Callable[[list[torch.Tensor]], list[torch.Tensor]]]


def _raise(failure: CuestaError) -> NoReturn:
    raise failure


def _load_nothing(_: Artefact) -> NoReturn:
    raise AssertionError("a program is loaded once")


#: Those whose code nobody has waited for yet.
_UNFINISHED: weakref.WeakSet[LateExecutable] = weakref.WeakSet()


class LateExecutable(Executable):
    """An executable whose code is on its way; `metadata` are there. Once it has been called it costs no more to call
    than any other. Who waits for it gets the CuestaError of making or loading its code, each time."""

    def __init__(
        self, begun: Begun, load: Callable[[Artefact], Executable], report: GraphReport, otherwise: Otherwise = _raise
    ) -> None:
        """Of a program without symbols in its sizes. `load` makes of the artefact what is called; the report is told
        how long that and waiting took. `otherwise` gives what is called instead where there is no code."""
        self.metadata = begun.program
        self._kernels = None
        self._begun: Begun | None = begun
        self._load, self._report, self._otherwise = load, report, otherwise
        self._lock = threading.Lock()
        self._outcome: Artefact | CuestaError | None = None
        self._call, self._fits = self._call_first, self._fits_first
        _UNFINISHED.add(self)

    def artefact(self) -> Artefact:
        """What is kept of it, once LLVM is done."""
        with self._lock:
            if self._outcome is None:
                _UNFINISHED.discard(self)
                try:
                    self._outcome = self._finish()
                except CuestaError as failure:
                    self._outcome = failure
        if isinstance(self._outcome, CuestaError):
            raise self._outcome
        return self._outcome

    def _finish(self) -> Artefact:
        start = time.perf_counter()
        assert self._begun is not None
        artefact = self._begun.finish()
        done = time.perf_counter()
        loaded = self._load(artefact)
        self._call, self._fits = loaded._call, loaded._fits
        # They hold the graph and its modules, which nobody needs any more.
        self._begun, self._load, self._otherwise = None, _load_nothing, _raise
        self._add("machine code", done - start)
        self._add("load and keep", time.perf_counter() - done)
        return artefact

    def _call_first(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            self.artefact()
        except CuestaError as failure:
            self._replace(failure)
        return self._call(tensors)

    def _fits_first(self, tensors: list[torch.Tensor]) -> bool:
        self.artefact()
        return self._fits(tensors)

    def _replace(self, failure: CuestaError) -> None:
        """Calls something else from now on. Raises what is to be told where there is nothing else."""
        with self._lock:
            if self._call == self._call_first:
                self._call = self._otherwise(failure)

    def _add(self, stage: str, seconds: float) -> None:
        self._report.times[stage] = self._report.times.get(stage, 0.0) + seconds


def settle() -> None:
    """Waits for the code of all programs that were made late. One that fails says so to who calls it."""
    for program in list(_UNFINISHED):
        with contextlib.suppress(CuestaError):
            program.artefact()


os.register_at_fork(before=settle)
