"""Defines the result of compiling a graph, whether it was compiled now or loaded from the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuesta.frontend.convention import Convention
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable


@dataclass(frozen=True)
class MadeProgram:
    """A compiled graph: its loaded program, its calling convention and its artefact."""

    executable: Executable
    convention: Convention
    #: key of the entry in the cache
    key: str
    #: waits for the artefact, if that is still being made
    artefact: Callable[[], Artefact]
