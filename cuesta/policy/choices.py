"""Answers questions of passes by a rule of thumb, or under `max_autotune` by measuring.

    route = choose(Question("product", "mm 64x1x64 bf16", key, ("library", "rows")), op)

A pass asks where it chooses. Without a chooser (`chosen_by`), the answer is the first candidate, the rule of thumb's.
Passes and lowering know no more of measuring than this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Question:
    """A choice to make."""

    #: "product", "gemm" or "tile": what the candidates compute
    kind: str
    #: description of the op or function, for reports
    about: str
    #: all that the answer may depend on besides the machine: equal keys have equal answers
    key: str
    #: names of the candidates; the first is the one that is taken unmeasured
    candidates: tuple[str, ...]
    #: another candidate is taken only if it takes at most this share of the first's time: smaller gains are noise
    worth: float = 0.9


#: Answers a question about an op or a function with one of its candidates.
Chooser: TypeAlias = Callable[[Question, Any], str]

_CHOOSER: ContextVar[Chooser | None] = ContextVar("chooser", default=None)


def measuring() -> bool:
    """Whether choices are measured: otherwise a pass need not build a question."""
    return _CHOOSER.get() is not None


def choose(question: Question, subject: Any) -> str:
    """The candidate to take for `subject`, an op or a function in the module that a pass runs on."""
    chooser = _CHOOSER.get()
    if chooser is None or len(question.candidates) < 2:
        return question.candidates[0]
    return chooser(question, subject)


@contextmanager
def chosen_by(chooser: Chooser | None) -> Iterator[None]:
    """Within this context `chooser` answers; None for the rules of thumb."""
    token = _CHOOSER.set(chooser)
    try:
        yield
    finally:
        _CHOOSER.reset(token)
