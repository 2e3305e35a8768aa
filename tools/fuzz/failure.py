"""What is found of a random graph or program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


class Unjudged(Exception):
    """The text itself is at fault, or what it is compared with; the message begins with which."""


@dataclass(frozen=True)
class Failure:
    """`kind` is alike for failures that have one cause: reducing keeps it. `message` tells more."""

    kind: str
    message: str

    @staticmethod
    def of(problem: Exception) -> Failure:
        """A failure to compile or to run."""
        return Failure(kind_of(problem), str(problem))


@dataclass(frozen=True)
class Note:
    """It is right; `text` is counted."""

    text: str


@dataclass(frozen=True)
class Tally:
    """Of a text that says many things: counts by what is counted, and what failed, each as a text of its own."""

    counts: Mapping[str, int]
    failures: tuple[tuple[str, Failure], ...] = ()


Verdict: TypeAlias = Failure | Note | Tally | None


def failures_of(found: Verdict) -> list[Failure]:
    """What failed, of any verdict."""
    if isinstance(found, Tally):
        return [failure for _, failure in found.failures]
    return [found] if isinstance(found, Failure) else []


def kind_of(problem: Exception) -> str:
    """What a problem says without names, sizes and addresses, which differ from one graph to a smaller one."""
    text = str(problem)
    error = re.search(r"error: .*", text)
    told = error.group(0) if error else text.partition("\n")[0]
    told = re.sub(r"0x[0-9a-f]+|%\S+|<[^>]*>|\d+|'tensor[^']*'", "_", told)
    return f"{type(problem).__name__}: {told[:100]}"
