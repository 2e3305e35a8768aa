"""cuesta-bench's history: what is kept, what counts as slower, on made-up records. No clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.tools import cuesta_bench
from cuesta.tools.bench import command, machine
from cuesta.tools.bench.measuring.timing import Spread
from cuesta.tools.bench.reporting.history import History, HistoryError, Ratios, Verdict, file_of, keep, ratios_of
from cuesta.tools.bench.reporting.plot import plot_history

DESCRIBED: dict[str, Any] = {
    "cpu": "Some CPU @ 2.00GHz",
    "cores": 2,
    "threads": 2,
    "packages": {"torch": "2.13.0"},
    "commit": "abc",
    "time": "2026-01-02T03:04:05",
    "load": [0.0, 0.0, 0.0],
}


def around(median: float, spread: float = 0.01) -> Spread:
    return Spread(median, median * (1 - spread), median * (1 + spread))


def cases(**cuesta_over_inductor: float) -> dict[str, Any]:
    """What a run keeps: three rounds, a per cent apart, of Inductor in 1 s."""
    rounds = [0.99, 1.0, 1.01]
    return {
        case: {
            "times": {"eager": [2.0] * 3, "inductor": [1.0] * 3, "cuesta": [factor * r for r in rounds]},
            "errors": {},
            "failed": {},
        }
        for case, factor in cuesta_over_inductor.items()
    }


@pytest.mark.parametrize(
    ("kept", "today", "is_slower"),
    [
        (around(1.0), around(1.0), False),
        (around(1.0), around(0.5), False),
        (around(1.0), around(1.09), False),
        (around(1.0), around(1.12), True),
        (around(0.5), around(0.56), True),
        # The quartiles meet: noise.
        (around(1.0), around(1.2, spread=0.19), False),
        (Spread(1.0, 0.9, 1.3), around(1.2), False),
        # A case that is new, and one that has failed.
        (None, around(9.0), False),
        (around(1.0), None, True),
    ],
)
def test_what_is_slower(kept: Spread | None, today: Spread | None, is_slower: bool) -> None:
    assert Verdict("case", "cuesta/inductor", kept, today).is_slower is is_slower


def test_a_slower_case_is_named_with_both_ratios() -> None:
    verdict = Verdict("softmax", "cuesta/inductor", around(0.7), around(0.84))
    assert str(verdict) == "softmax: cuesta/inductor was 0.70 [0.69 0.71], is 0.84 [0.83 0.85], 20 % slower"


def test_ratios_of_a_cpu_and_of_a_gpu() -> None:
    on_cpu = ratios_of(cases(a=0.5))
    assert on_cpu["a"].keys() == {"cuesta/eager", "cuesta/inductor"}
    assert on_cpu["a"]["cuesta/inductor"] == Spread(0.5, 0.4975, 0.5025)
    samples = {"eager": [4.0, 4.0], "cuesta:reduce-overhead": [1.0, 1.0], "inductor": []}
    parts = {name: {"times": [{"device": t} for t in times]} for name, times in samples.items()}
    assert ratios_of({"a": {"contenders": parts}}) == {"a": {"cuesta:reduce-overhead/eager": Spread(0.25, 0.25, 0.25)}}
    assert ratios_of({"a": {"failed": "no memory"}}) == {"a": {}}


def test_runs_are_kept_and_the_last_ratio_of_each_case_counts(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(file, DESCRIBED, cases(a=0.5, b=0.8))
    history, _ = keep(file, DESCRIBED, cases(a=0.6))
    assert len(history.runs) == 2
    content = json.loads(file.read_text())
    assert content["about"]["cpu"] == DESCRIBED["cpu"]
    assert content["runs"][1]["commit"] == "abc"
    read = History.read(file, history.about)
    for case, median in (("a", 0.6), ("b", 0.8)):
        last = read.last(case, "cuesta/inductor")
        assert last is not None
        assert last.median == pytest.approx(median)
    assert read.last("c", "cuesta/inductor") is None
    assert read.series("b", "cuesta/inductor")[1] is None


def test_check_holds_the_next_run_to_the_same_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kept.json"
    keep(file, DESCRIBED, cases(a=0.5, b=0.8))
    for _ in range(2):
        _, problems = keep(file, DESCRIBED, cases(a=0.6, b=0.8), check=True)
        assert [problem.split(":")[0] for problem in problems] == ["a"]
    assert "slower" in capsys.readouterr().out
    assert keep(file, DESCRIBED, cases(a=0.52, b=0.8), check=True)[1] == []
    # Kept without a check: from now on that is what it is held to.
    keep(file, DESCRIBED, cases(a=0.6))
    assert keep(file, DESCRIBED, cases(a=0.6), check=True)[1] == []


def test_a_case_that_fails_today_and_a_run_that_checks_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    (nothing,) = keep(file, DESCRIBED, cases(a=0.5), check=True)[1]
    assert "nothing was checked" in nothing
    failed = {"a": {"times": {"eager": [1.0], "inductor": [1.0]}, "failed": {"cuesta": "no"}}}
    (problem,) = keep(file, DESCRIBED, failed, check=True)[1]
    assert "not measured today" in problem


def test_the_reference_is_inductor_in_the_same_mode_or_whom_both_sides_have() -> None:
    kept: Ratios = {"a": {f"cuesta:x/{name}": around(1.0) for name in ("eager", "inductor", "inductor:x")}}
    history = History({}, [])
    history.append({}, kept)

    def judged(today: Ratios, reference: str | None = None) -> list[str]:
        return [verdict.pair for verdict in history.verdicts(today, reference)]

    assert judged(kept) == ["cuesta:x/inductor:x"]
    assert judged(kept, "eager") == ["cuesta:x/eager"]
    assert judged({"a": {"cuesta:x/eager": around(1.0)}}) == ["cuesta:x/eager"]
    assert judged({"a": {}}) == ["cuesta:x/inductor:x"]
    assert judged(kept, "nobody") == []


def test_a_folder_stands_for_the_file_of_the_machine(tmp_path: Path) -> None:
    history, _ = keep(tmp_path, DESCRIBED, cases(a=0.5))
    (file,) = tmp_path.iterdir()
    assert file.name == "some_cpu_2.00ghz_2_threads_torch_2.13.0.json"
    on_gpu = {**history.about, "gpu": "NVIDIA H100"}
    assert file_of(tmp_path, on_gpu).name == "nvidia_h100_torch_2.13.0.json"


def test_a_processor_is_more_than_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two generations of one are both "AMD EPYC" to a virtual machine: a history of one is none of the other."""
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr("cuesta.runtime.machine.CPUINFO", info)
    of_one = "processor : 0\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC\n\nprocessor : 1\nmodel : 3\n"
    info.write_text(of_one)
    assert machine.describe(2)["cpu"] == "AMD EPYC (family 25, model 17)"
    info.write_text("processor : 0\nmodel name : Some\n")
    assert machine.describe(2)["cpu"] == "Some"


def test_a_file_that_is_no_history_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(file, DESCRIBED, cases(a=0.5))
    with pytest.raises(HistoryError, match="threads 2; here it is 1"):
        keep(file, DESCRIBED | {"threads": 1}, cases(a=0.5))
    for text in ("[]", "{", '{"format": 7, "about": {}, "runs": []}'):
        file.write_text(text)
        with pytest.raises(HistoryError, match=r"not a history|has format"):
            keep(file, DESCRIBED, cases(a=0.5))


def test_the_picture_has_every_case(tmp_path: Path) -> None:
    for factor in (0.5, 0.6):
        history, _ = keep(tmp_path / "kept.json", DESCRIBED, cases(first_case=factor, second_case=1.0))
    plot_history(tmp_path / "trend.svg", history)
    text = (tmp_path / "trend.svg").read_text()
    assert text.count("<!-- first_case -->") == text.count("<!-- second_case -->") == 1


def test_the_command_keeps_checks_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [cases(call_overhead_8x8=0.5), cases(call_overhead_8x8=0.6)]
    monkeypatch.setattr(command, "measure", lambda *_: {"machine": machine.describe(2), "times": found.pop(0)})
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    arguments = ["--case", "call_overhead", "--backends", "eager,cuesta", "--history", str(tmp_path / "kept.json")]
    assert cuesta_bench.main([*arguments, "--trend", str(tmp_path / "trend.svg")]) == 0
    assert (tmp_path / "trend.svg").exists()
    assert cuesta_bench.main([*arguments, "--check"]) == 1
    assert "20 % slower" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check"], "need --history"),
        (["--history", "/no/such/folder/kept.json"], "cannot write"),
        (["--history", "kept.json", "--compile"], "ratios of times"),
    ],
)
def test_a_wrong_argument_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cuesta_bench.main(arguments)
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
