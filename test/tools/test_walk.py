"""Tests that docs/walk.md shows what the stages make."""

from __future__ import annotations

from pathlib import Path

import cuesta
from cuesta.passes.pipelines import stages_for
from cuesta.tools import walk

PAGE = Path(cuesta.__file__).resolve().parents[1] / "docs" / "walk.md"


def test_the_page_is_what_the_stages_make() -> None:
    made = walk.page().splitlines()
    assert made == PAGE.read_text().splitlines(), "python -m cuesta.tools.walk --page docs/walk.md writes the page"


def test_every_level_is_shown() -> None:
    shown = [level.name for rows in walk.LEVELS.values() for level in rows]
    for target in (walk.CPU, walk.parse_target("cuda:90")):
        assert {*stages_for(target)} <= {*shown}


def test_long_levels_are_shortened() -> None:
    text = walk.shortened("\n".join(["x" * 500, *("y" for _ in range(99))]))
    lines = text.splitlines()
    assert lines[0].endswith("x …") and lines[-1] == f"… {100 - walk._LINES} more lines"
