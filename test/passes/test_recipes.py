"""The examples of docs/adding_a_pass.md and docs/changing_fusion.md run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuesta.passes.infra import registry

DOCS = Path(__file__).parents[2] / "docs"


def example(page: str, language: str, start: str) -> str:
    """The block of the page that begins with `start`."""
    (found,) = re.findall(rf"```{language}\n({re.escape(start)}.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return str(found)


@pytest.fixture
def fold_negations() -> Iterator[None]:
    exec(example("adding_a_pass.md", "python", "# passes/"), {"__name__": "fold_negations"})
    yield
    del registry._PASSES["fold-negations"]


@pytest.mark.usefixtures("fold_negations")
def test_a_pass(tmp_path: Path, run_mlir: Callable[[Path], None]) -> None:
    (tmp_path / "pass.mlir").write_text(example("adding_a_pass.md", "mlir", "// RUN"))
    run_mlir(tmp_path / "pass.mlir")


def test_why_two_groups_stay_apart(tmp_path: Path, run_mlir: Callable[[Path], None]) -> None:
    (tmp_path / "fusion.mlir").write_text(example("changing_fusion.md", "mlir", "// RUN"))
    run_mlir(tmp_path / "fusion.mlir")
