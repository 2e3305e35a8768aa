"""cuesta-bench --survey: its table of made-up numbers, and two cases of it measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from cuesta.tools import cuesta_bench
from cuesta.tools.bench.cases.survey import SURVEY_CASES
from cuesta.tools.bench.measuring.timing import bursts
from cuesta.tools.bench.reporting.cpu_tables import survey_table


def timed(**seconds: float) -> dict[str, Any]:
    """Of a case: the second round was disturbed."""
    times = {name: [s, 9 * s] for name, s in seconds.items()}
    return {"times": times, "errors": dict.fromkeys(seconds, 0.0), "failed": {}}


def test_the_slowest_of_ours_comes_first_and_failures_before_it() -> None:
    results = {
        "ahead": timed(eager=4.0, inductor=4.0, cuesta=1.0),
        "behind": timed(eager=4.0, inductor=2.0, cuesta=4.0),
        "failed": timed(eager=1.0, inductor=1.0) | {"failed": {"cuesta": "no"}},
    }
    content = survey_table(results)
    at = [list(content.header).index(name) for name in ("case", "cuesta", "cuesta/inductor", "cuesta/eager")]
    assert [[row[i] for i in at] for row in content.rows] == [
        ["failed", "failed", "–", "–"],
        ["behind", "4 s", "2.00", "1.00"],
        ["ahead", "1 s", "0.25", "0.25"],
        ["geometric mean, 3 cases", "", "0.71 (2)", "0.50 (2)"],
    ]


def test_every_contender_has_a_time_in_each_round() -> None:
    calls: Counter[str] = Counter()
    times = bursts({name: lambda name=name: calls.update([name]) for name in ("a", "b")}, rounds=3)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}
    assert min(calls.values()) >= 3 * 3


def test_two_cases(tmp_path: Path) -> None:
    report, page = tmp_path / "out.json", tmp_path / "out.md"
    arguments = ["--survey", "--case", "^(add_relu|mse_step)$", "--backends", "eager,cuesta", "--repeats", "2"]
    assert cuesta_bench.main([*arguments, "--json", str(report), "--markdown", str(page)]) == 0
    found = json.loads(report.read_text())["survey"]
    assert list(found) == ["add_relu", "mse_step"]
    assert all(case["errors"]["cuesta"] < 1e-6 for case in found.values())
    rows = [line.split(" | ")[0] for line in page.read_text().splitlines() if line.startswith("| ")]
    assert sorted(rows[2:]) == ["| add_relu", "| geometric mean, 2 cases", "| mse_step"]


def test_cases_have_names_of_their_own() -> None:
    assert [name for name, count in Counter(case.name for case in SURVEY_CASES).items() if count > 1] == []
