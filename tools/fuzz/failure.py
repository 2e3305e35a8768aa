"""Defines the verdicts on a random text: failure, note, tally, or unjudged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor


class Unjudged(Exception):
    """A text cannot be judged: the text or its reference is at fault. The message begins with which of the two."""


@dataclass(frozen=True)
class Failure:
    """Failures with one cause have the same `kind`, which reducing preserves. `message` has the details."""

    kind: str
    message: str

    @staticmethod
    def of(problem: Exception) -> Failure:
        """The Failure for an exception of compiling or running."""
        return Failure(kind_of(problem), str(problem))


@dataclass(frozen=True)
class Note:
    """The text passed; `text` is a remark, whose occurrences are counted."""

    text: str


@dataclass(frozen=True)
class Tally:
    """Verdict on a text of many calls: counts by remark, and each failure with a text of its own."""

    counts: Mapping[str, int]
    failures: tuple[tuple[str, Failure], ...] = ()


Verdict: TypeAlias = Failure | Note | Tally | None


def failures_of(found: Verdict) -> list[Failure]:
    """The failures in a verdict."""
    if isinstance(found, Tally):
        return [failure for _, failure in found.failures]
    return [found] if isinstance(found, Failure) else []


def places_of(wrong: Tensor, actual: Tensor, expected: Tensor) -> str:
    """How many places of a mask are wrong, and the numbers at the first of them."""
    at = tuple(int(i) for i in wrong.nonzero()[0])
    count = f"{int(wrong.sum())} of {wrong.numel()} places"
    return f"{count}; at {list(at)}: {actual[at].item()} for {expected[at].item()}"


def kind_of(problem: Exception) -> str:
    """The message of an exception without names, sizes and addresses, which change as a text is reduced."""
    text = str(problem)
    error = re.search(r"error: .*", text)
    told = error.group(0) if error else text.partition("\n")[0]
    told = re.sub(r"0x[0-9a-f]+|%\S+|<[^>]*>|\d+|'tensor[^']*'", "_", told)
    return f"{type(problem).__name__}: {told[:100]}"
