"""Gives smaller variants of a function and its calls: without a line, a result or a call, or with plainer calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cuesta.tools.fuzz.calls.call_text import call_names, only_calls, without_first
from cuesta.tools.fuzz.programs.smaller_programs import smaller_programs

#: (pattern, plainer replacement).
_PLAINER = (
    (re.compile(r', within="?\'?[^,)]*'), ""),
    (re.compile(r"^DYNAMIC = True$", re.MULTILINE), "DYNAMIC = None"),
    (re.compile(r"^MARKED = \[\(.*$", re.MULTILINE), "MARKED = []"),
    (re.compile(r'^EXPORT = "(loaded|fresh)"$', re.MULTILINE), 'EXPORT = "no"'),
    (re.compile(r'^EXPORT = "loaded"$', re.MULTILINE), 'EXPORT = "fresh"'),
    (re.compile(r'"(end|begin|odd|numpy|dlpack|shared|read only)"'), '"torch"'),
    (re.compile(r"\n    x\d\.requires_grad_\(\)"), ""),
    (re.compile(r"\n    x\d = x\d\.as_subclass\(.*\)"), ""),
    (re.compile(r"\n    x\d = torch\.nn\.\w+\(.*\)"), ""),
)


def smaller_calls(text: str) -> Iterator[str]:
    """Variants of the text that are one step smaller or plainer."""
    names = call_names(text)
    if len(names) > 2:
        yield from (only_calls(text, [name]) for name in reversed(names[1:]))
        yield from (only_calls(text, [*names[1:i], *names[i + 1 :]]) for i in range(1, len(names)))
    if len(names) > 1:
        yield without_first(text)
    yield from smaller_programs(text)
    for pattern, plain in _PLAINER:
        for match in pattern.finditer(text):
            yield text[: match.start()] + plain + text[match.end() :]
