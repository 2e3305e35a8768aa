"""Shows the progress of a long compile on stderr, if that is a terminal or CUESTA_PROGRESS is set."""

from __future__ import annotations

import sys
import time

from cuesta.options import Environment

QUIET = 3.0
"""Seconds before anything is said, and from then on between two lines."""


class Progress:
    """One compile, which began at `start` by time.monotonic(), or now."""

    def __init__(self, start: float | None = None) -> None:
        self._start = time.monotonic() if start is None else start
        self._told = self._start
        self._shown = Environment.read().progress or sys.stderr.isatty()

    def tell(self, words: str) -> None:
        """Prints `words` and the time since the start, unless something was printed a moment ago."""
        now = time.monotonic()
        if self._shown and now - self._told >= QUIET:
            self._told = now
            print(f"cuesta: {words}, {now - self._start:.0f} s", file=sys.stderr, flush=True)
