"""Who is measured: a backend of torch.compile with a mode, as `backend` or `backend:mode`."""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.tools.bench.backends import unknown_backend

DEFAULT = "eager,cuesta,cuesta:reduce-overhead,inductor,inductor:reduce-overhead"

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")


@dataclass(frozen=True)
class Contender:
    """One of those that are measured."""

    backend: str
    mode: str | None = None

    @staticmethod
    def parse(text: str) -> Contender:
        backend, _, mode = text.partition(":")
        return Contender(backend, mode or None)

    def __str__(self) -> str:
        return f"{self.backend}:{self.mode}" if self.mode else self.backend

    @property
    def compiles(self) -> bool:
        return self.backend != "eager"


def unknown_contender(text: str) -> str | None:
    """A message where `text` names no contender, else None."""
    contender = Contender.parse(text)
    if contender.mode and (not contender.compiles or contender.mode not in MODES):
        return f"no mode {contender.mode!r} of {contender.backend}; a backend that compiles has {', '.join(MODES)}"
    return unknown_backend(contender.backend)
