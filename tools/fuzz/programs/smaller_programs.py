"""Gives smaller variants of a torch program: without a line, a result, a set of sizes or the gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RETURN = re.compile(r"    return \((.*),\)")


def smaller_programs(text: str) -> Iterator[str]:
    """The program without one result, one line (the last lines first), the gradient, or one set of sizes."""
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
    sets = [i for i, line in enumerate(lines) if line.startswith("OTHERS.append(")]
    for i in sets:
        yield "".join([*lines[:i], *lines[i + 1 :]])
