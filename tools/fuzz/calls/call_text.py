"""Writes, reads and reduces the text of a function and its calls: Python that runs alone, a block for each call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.tools.fuzz.calls.call import Call
from cuesta.tools.fuzz.compiling import Function, read_text
from cuesta.tools.fuzz.programs.program import smaller_programs

_HEAD = """import torch
import torch.nn.functional as F

from cuesta.tools.fuzz.calls.call import Plain, Telling, call

#: torch.compile's `dynamic`; (argument, dim) whose sizes are marked as open.
DYNAMIC = {dynamic}
MARKED = {marked}
#: "no": it is compiled by torch.compile; else by cuesta.compile, and called "fresh", or saved and "loaded".
EXPORT = "{export}"
"""

_TAIL = """
if __name__ == "__main__":
    from cuesta.tools.fuzz.calls.check_calls import show

    show(__file__)
"""

_BLOCK = re.compile(r"\n\n(@call\(.*?\)\ndef (\w+)\(memory\):\n(?:    .*\n)+)")
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


def text_of(
    lines: Sequence[str], arguments: int, results: Sequence[str], calls: Sequence[str], **settings: object
) -> str:
    """The text of a function with these lines and results. `calls` are blocks from `call_block`; `settings` are
    `dynamic`, `marked` and `export`."""
    names = ", ".join(f"x{i}" for i in range(arguments))
    body = "".join(f"    {line}\n" for line in lines)
    function = f"\n\ndef program({names}):\n{body}    return ({', '.join(results)},)\n"
    return _HEAD.format(**settings) + function + "".join(f"\n\n{block}" for block in calls) + "\n" + _TAIL


def call_block(name: str, settings: dict[str, Any], lines: Sequence[str], results: Sequence[str]) -> str:
    """The block of one call: `settings` are the decorator's arguments, `lines` make the call's arguments `results`."""
    given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    body = "".join(f"    {line}\n" for line in lines)
    return f"@call({given})\ndef {name}(memory):\n{body}    return ({', '.join(results)},)\n"


def call_names(text: str) -> list[str]:
    """The names of the calls; the function is compiled for the first."""
    return [match[2] for match in _BLOCK.finditer(text)]


def only_calls(text: str, names: Collection[str]) -> str:
    """The text with only the first call and the calls in `names`."""
    for match in list(_BLOCK.finditer(text))[1:]:
        if match[2] not in names:
            text = text.replace(match[0], "", 1)
    return text


def without_first(text: str) -> str:
    """The text without its first call, so that the function is compiled for the second."""
    first = _BLOCK.search(text)
    assert first is not None
    return text.replace(first[0], "", 1)


def each_call(text: str) -> list[str]:
    """One text for each call but the first: the first call and that one."""
    return [only_calls(text, [name]) for name in call_names(text)[1:]]


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


@dataclass(frozen=True)
class CallText:
    """A text that has been read: the function, how to compile it, and its calls. It is compiled for the first call."""

    function: Function
    calls: dict[str, Call]
    dynamic: bool | None
    marked: list[tuple[int, int]]
    export: str

    @staticmethod
    def read(text: str) -> CallText:
        scope = read_text(text)
        calls = {key: value for key, value in scope.items() if isinstance(value, Call)}
        return CallText(scope["program"], calls, scope["DYNAMIC"], scope["MARKED"], scope["EXPORT"])
