"""Renews the tables of docs/options.md from cuesta/options.py: `python -m cuesta.tools.options_page`."""

from __future__ import annotations

import re
from pathlib import Path

from cuesta.options import MODE_EFFECTS, Environment, Options, list_mode_options, options_of
from cuesta.tools.markdown import table

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
        content = table(head, rows)
        first = content.partition("\n")[0]
        old = re.compile(rf"^{re.escape(first)}\n(\|.*\n)*", re.MULTILINE)
        if old.search(text) is None:
            raise ValueError(f"the page has no table with the header {first}")
        text = old.sub(lambda _, content=content: content, text, count=1)  # type: ignore[misc]
    return text


def _settings(options: dict[str, object]) -> str:
    return ", ".join(f"`{name}`: {value}" for name, value in options.items()) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
