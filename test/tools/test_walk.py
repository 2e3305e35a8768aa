"""Tests that docs/walk.md shows what the stages make."""

from __future__ import annotations

import re

from cuesta.passes.pipelines import stages_for
from cuesta.tools import walk


def test_the_page_is_what_the_stages_make() -> None:
    text = walk.PAGE.read_text()
    assert walk.renewed(text) == text, "python -m cuesta.tools.walk --page docs/walk.md renews the page"
    assert walk.renewed(text.replace("arith.", "stale.")) == text


def test_every_level_is_shown() -> None:
    shown = re.findall(r"^### (\S+)$", walk.PAGE.read_text(), re.MULTILINE)
    for target in (walk.CPU, walk.parse_target("cuda:90")):
        assert {*stages_for(target)} <= {*shown}


def test_long_levels_are_shortened() -> None:
    text = walk.shortened("\n".join(["x" * 500, *("y" for _ in range(99))]))
    lines = text.splitlines()
    assert lines[0].endswith("x …") and lines[-1] == f"… {100 - walk._LINES} more lines"
