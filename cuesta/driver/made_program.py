"""A compiled graph, as the ways to make one give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuesta.frontend.convention import Convention
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable


@dataclass(frozen=True)
class MadeProgram:
    """A compiled graph: what is kept of it, loaded, and how it is called."""

    executable: Executable
    convention: Convention
    #: of its entry in the cache
    key: str
    #: what is kept of it, which may have to be waited for
    artefact: Callable[[], Artefact]
