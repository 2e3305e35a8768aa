"""Returns programs while LLVM's threads still make their machine code, so that torch goes on: it makes guards, keeps
traces, has other graphs compiled. The first call of a program waits for its code.

`wait_all` waits for the code of all programs. It runs before a fork, before LLVM starts on another program, and before
anything is timed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import torch

from cuesta.errors import CuestaError
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.program import Program


@dataclass(frozen=True)
class Begun:
    """A program whose code LLVM's threads are making."""

    #: the artefact's "program"
    program: Program
    #: waits for the code; raises CompileError where LLVM makes none
    finish: Callable[[], Artefact]


#: Maps the error of making or loading a program's code to a replacement to call; raises CuestaError where there is
#: none.
Otherwise: TypeAlias = Callable[[CuestaError], Callable[[list[torch.Tensor]], list[torch.Tensor]]]


def _raise(failure: CuestaError) -> NoReturn:
    raise failure


def _load_nothing(_: Artefact) -> NoReturn:
    raise AssertionError("a program is loaded once")


#: Executables whose code nobody has waited for yet.
_UNFINISHED: weakref.WeakSet[LateExecutable] = weakref.WeakSet()


class LateExecutable(Executable):
    """An executable whose code LLVM is still making; `metadata` exist already.

    After its first call, it costs no more to call than any other. Everyone who waits for it gets the CuestaError of
    making or loading its code.
    """

    def __init__(
        self, begun: Begun, load: Callable[[Artefact], Executable], report: GraphReport, otherwise: Otherwise = _raise
    ) -> None:
        """Takes a program without symbolic sizes.

        `load` makes an executable of the artefact. The report gets the time of loading. `otherwise`
        gives the replacement to call if there is no code.
        """
        self.metadata = begun.program
        self._kernels = None
        self._begun: Begun | None = begun
        self._load, self._report, self._otherwise = load, report, otherwise
        self._lock = threading.Lock()
        self._outcome: Artefact | CuestaError | None = None
        self._call, self._fits = self._call_first, self._fits_first
        _UNFINISHED.add(self)

    def artefact(self) -> Artefact:
        """The artefact, once LLVM is done."""
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
        assert self._begun is not None
        artefact = self._begun.finish()
        with self._report.timed("load and keep"):
            loaded = self._load(artefact)
        self._call, self._fits = loaded._call, loaded._fits
        # They hold the graph and its modules, which are not needed any more.
        self._begun, self._load, self._otherwise = None, _load_nothing, _raise
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
        """Switches to the replacement. Raises the error for the user where there is none."""
        with self._lock:
            if self._call == self._call_first:
                self._call = self._otherwise(failure)


def wait_all() -> None:
    """Waits for the code of all late programs. Errors are left to the callers of the program that failed."""
    for program in list(_UNFINISHED):
        with contextlib.suppress(CuestaError):
            program.artefact()


os.register_at_fork(before=wait_all)
