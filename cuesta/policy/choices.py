"""Choices that passes make by a rule of thumb, and that `max_autotune` makes by measuring.

    route = choose(Question("product", "mm 64x1x64 bf16", key, ("library", "rows")), op)

A pass asks where it chooses. Nobody measures unless somebody listens (`chosen_by`); then the first candidate, the rule
of thumb's, is taken. Passes and lowering know no more of measuring than this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Question:
    """What is to be chosen."""

    #: "product", "gemm" or "tile": what the candidates are ways to do
    kind: str
    #: what it is asked of, to read
    about: str
    #: all that the answer may depend on beside the machine: equal keys have equal answers
    key: str
    #: names of the ways, the one that is taken unmeasured first
    candidates: tuple[str, ...]
    #: another than the first is taken where it takes at most this share of its time: less is noise
    worth: float = 0.9


#: Answers a question about an op or a function with one of its candidates.
Chooser: TypeAlias = Callable[[Question, Any], str]

_CHOOSER: ContextVar[Chooser | None] = ContextVar("chooser", default=None)


def measuring() -> bool:
    """Whether somebody measures: else a question need not be put, and what it says need not be made."""
    return _CHOOSER.get() is not None


def choose(question: Question, subject: Any) -> str:
    """The candidate to take for `subject`, an op or a function in the module that a pass runs on."""
    chooser = _CHOOSER.get()
    if chooser is None or len(question.candidates) < 2:
        return question.candidates[0]
    return chooser(question, subject)


@contextmanager
def chosen_by(chooser: Chooser | None) -> Iterator[None]:
    """Within it `chooser` answers; None: the rules of thumb do."""
    token = _CHOOSER.set(chooser)
    try:
        yield
    finally:
        _CHOOSER.reset(token)
