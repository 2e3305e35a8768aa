"""What can go wrong with a random graph or program."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """`kind` is alike for failures that have one cause: reducing keeps it. `message` tells more."""

    kind: str
    message: str

    @staticmethod
    def of(problem: Exception) -> Failure:
        """A failure to compile or to run."""
        text = str(problem)
        error = re.search(r"error: .*", text)
        told = error.group(0) if error else text.partition("\n")[0]
        # Names, sizes and addresses differ from one graph to a smaller one.
        told = re.sub(r"0x[0-9a-f]+|%\S+|<[^>]*>|\d+|'tensor[^']*'", "_", told)
        return Failure(f"{type(problem).__name__}: {told[:100]}", text)
