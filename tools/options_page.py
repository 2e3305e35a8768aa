"""Renews the tables of docs/options.md from cuesta/options.py: `python -m cuesta.tools.options_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuesta.options import MODE_EFFECTS, Environment, Options, list_mode_options, options_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"


def renewed(text: str) -> str:
    """The page with its tables of modes, options and environment variables made anew. Raises ValueError if the page has
    no table with one of their headers."""
    modes = [[f"`{name}`", _settings(options), MODE_EFFECTS[name]] for name, options in list_mode_options().items()]
    options = [[f"`{n}`", f"`{kind}`", f"`{default!r}`", text] for n, kind, default, text in options_of(Options)]
    variables = [[f"`{name}`", text] for name, _, _, text in options_of(Environment)]
    tables = (
        (["mode", "sets", "effect"], modes),
        (["option", "type", "default", "effect"], options),
        (["variable", "meaning"], variables),
    )
    for head, rows in tables:
        first, *others = _table(head, rows)
        table = re.compile(rf"^{re.escape(first)}\n(\|.*\n)*", re.MULTILINE)
        if table.search(text) is None:
            raise ValueError(f"the page has no table with the header {first}")
        content = "\n".join([first, *others]) + "\n"
        text = table.sub(lambda _, content=content: content, text, count=1)  # type: ignore[misc]
    return text


def _settings(options: dict[str, object]) -> str:
    return ", ".join(f"`{name}`: {value}" for name, value in options.items()) or "nothing"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
