"""Makes a failing torch program small: lines and results are left out as long as it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cuesta.tools.fuzz.failure import Failure

_RETURN = re.compile(r"    return \((.*),\)")


def reduce_program(text: str, failure: Failure, judge: Callable[[str], Failure | None]) -> str:
    """The smallest program found that fails as `text` does."""
    current, shrunk = text, True
    while shrunk:
        shrunk = False
        for smaller in _variants(current):
            if _fails(smaller, failure, judge):
                current, shrunk = smaller, True
                break
    return current


def _fails(text: str, failure: Failure, judge: Callable[[str], Failure | None]) -> bool:
    try:
        found = judge(text)
    except ValueError:  # no program without the line, or one that eager refuses
        return False
    return found is not None and found.kind == failure.kind


def _variants(text: str) -> Iterator[str]:
    """Programs that are one result or one line shorter, the last lines first."""
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("def program"))
    end = next(i for i, line in enumerate(lines) if _RETURN.match(line))
    found = _RETURN.match(lines[end])
    assert found is not None
    results = found[1].split(", ")
    for i in range(len(results)):
        if len(results) > 1:
            kept = ", ".join([*results[:i], *results[i + 1 :]])
            yield "".join([*lines[:end], f"    return ({kept},)\n"])
    for i in reversed(range(start + 1, end)):
        yield "".join([*lines[:i], *lines[i + 1 :]])
    if "GRADIENT = True" in text:
        yield text.replace("GRADIENT = True", "GRADIENT = False")
