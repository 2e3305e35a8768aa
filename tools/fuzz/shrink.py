"""Reduces a failing text: replaces the text by a smaller variant for as long as one fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuesta.tools.fuzz.failure import Failure, Unjudged, Verdict, failures_of

#: Gives the variants of a text that are one step smaller, the largest steps first.
Smaller = Callable[[str], Iterator[str]]


def shrink(text: str, failure: Failure, judge: Callable[[str], Verdict], smaller: Smaller) -> str:
    """The smallest text found that fails as `text` does."""
    found: str | None = text
    while found is not None:
        text = found
        found = next((each for each in smaller(text) if _fails(each, failure, judge)), None)
    return text


def _fails(text: str, failure: Failure, judge: Callable[[str], Verdict]) -> bool:
    try:
        found = judge(text)
    except Unjudged:  # the smaller text is malformed, or its reference refuses it
        return False
    return any(other.kind == failure.kind for other in failures_of(found))
