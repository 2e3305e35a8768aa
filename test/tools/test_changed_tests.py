"""Which tests `make quick` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuesta.tools import changed_tests
from cuesta.tools.changed_tests import ALWAYS, ROOT, all_tests, main


def named(*paths: str) -> list[Path]:
    return [Path(path) for path in paths]


TESTS = named(
    *("test/passes/fold_views.mlir", "test/passes/test_scratch.py", "test/passes/test_form_kernels.py"),
    *("test/passes/form_kernels/apart.mlir", "test/frontend/test_import_shape.py", *ALWAYS),
)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("passes/graph/fold_views.py", ["test/passes/fold_views.mlir"]),
        (
            "passes/form_kernels/fusion/concat_operands.py",
            ["test/passes/test_form_kernels.py", "test/passes/form_kernels/apart.mlir"],
        ),
        ("frontend/aten/shape.py", ["test/frontend/test_import_shape.py"]),
        ("test/passes/test_scratch.py", ["test/passes/test_scratch.py"]),
    ],
)
def test_a_changed_file_has_its_tests(changed: str, expected: list[str]) -> None:
    assert changed_tests.tests_of(named(changed), TESTS) == sorted(named(*expected, *ALWAYS))


def test_what_always_runs_is_there() -> None:
    assert {*map(Path, ALWAYS)} <= set(all_tests())
    assert all((ROOT / path).is_file() for path in ALWAYS)


def test_an_unknown_commit_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err
