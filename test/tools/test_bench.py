"""cuesta-bench: its arithmetic on made-up numbers, its memory measurement on cases whose peak is known, its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import record_function

from cuesta.tools import cuesta_bench
from cuesta.tools.bench.memory import measure, predicted_peak
from cuesta.tools.bench.table import megabytes, seconds, table
from cuesta.tools.bench.timing import Spread, interleaved, ratios

MEGABYTE = 1_000_000


def block(megabytes: int) -> torch.Tensor:
    return torch.empty(megabytes * MEGABYTE, dtype=torch.uint8)


def one_block() -> torch.Tensor:
    return block(3)


def two_at_once() -> tuple[torch.Tensor, torch.Tensor]:
    return block(3), block(5)


def one_after_the_other() -> torch.Tensor:
    first = block(3)
    del first
    return block(5)


def in_the_middle() -> torch.Tensor:
    first, second = block(3), block(5)
    del second
    return first


def an_eager_chain() -> torch.Tensor:
    x = torch.zeros(MEGABYTE // 4)
    return x.sin().cos().exp()


@pytest.mark.parametrize(
    ("call", "peak"),
    [
        (lambda: None, 0),
        (one_block, 3),
        (two_at_once, 8),
        (one_after_the_other, 5),
        (in_the_middle, 8),
        # x, and the operand and the result of the op that runs.
        (an_eager_chain, 3),
    ],
    ids=["nothing", "one", "two", "sequence", "middle", "chain"],
)
def test_peak_of_known_cases(call: Callable[[], Any], peak: int) -> None:
    assert measure(call).peak == peak * MEGABYTE


def test_what_was_there_before_does_not_count() -> None:
    held = [block(7)]

    def replace() -> None:
        held.append(block(3))
        held.pop(0)

    assert measure(replace).peak == 3 * MEGABYTE


def test_peak_of_a_phase_counts_from_its_start() -> None:
    def call() -> tuple[torch.Tensor, torch.Tensor]:
        with record_function("first"):
            kept = block(4)
        with record_function("second"):
            one_block()
            return kept, block(2)

    use = measure(call, ("first", "second", "never"))
    assert use.peak == 7 * MEGABYTE
    assert use.phases == {"first": 4 * MEGABYTE, "second": 3 * MEGABYTE}


def test_backward_is_seen() -> None:
    x = torch.zeros(MEGABYTE // 4, requires_grad=True)
    assert measure(lambda: x.exp().sum().backward()).peak >= 2 * MEGABYTE


def test_the_predicted_peak_of_several_graphs() -> None:
    forward = {"arena_bytes": 5, "peak_bytes": 12, "kept_bytes": 7, "keeps_arena": True}
    backward = {"arena_bytes": 2, "peak_bytes": 6, "kept_bytes": -3, "keeps_arena": True}
    assert predicted_peak([forward]) == 12
    # 7 kept by the first, its arena of 5, and 4 beside the arena in the second.
    assert predicted_peak([forward, backward]) == 16
    assert predicted_peak([forward | {"keeps_arena": False}, backward]) == 13
    assert predicted_peak([]) == 0


def test_spread() -> None:
    assert Spread.of([4.0, 1.0, 3.0, 2.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread.of([2.0]) == Spread(2.0, 2.0, 2.0)


def test_ratios_are_taken_round_by_round() -> None:
    """The machine gets ten times slower in the middle: the ratio does not notice."""
    assert ratios([1.0, 10.0, 1.0], [2.0, 20.0, 2.0]) == Spread(0.5, 0.5, 0.5)


def test_every_call_runs_in_every_round() -> None:
    order: list[str] = []
    times = interleaved({name: lambda name=name: order.append(name) for name in ("a", "b")}, rounds=3)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}
    assert all(value > 0 for values in times.values() for value in values)
    runs = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    # Calibration of each, then three rounds, each begun by the other one: equal neighbours melt into one run.
    assert runs == ["a", "b", "a", "b", "a", "b"]


def test_text() -> None:
    assert [seconds(s) for s in (2.5, 0.0123, 4.2e-6, 1234.0)] == ["2.5 s", "12.3 ms", "4.2 µs", "1234 s"]
    assert [megabytes(b) for b in (2_500_000, 1234)] == ["2.50 MB", "1.23 kB"]
    assert table(["name", "n"], [["a", "10"], ["long one", "9"]]).splitlines() == [
        "name       n",
        "────────  ──",
        "a         10",
        "long one   9",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "("], "no regular expression"),
        (["--case", "no_such_case"], "matches no case"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--repeats", "-3"], "--repeats must be at least 1"),
        (["--repeats", "x"], "invalid int"),
        (["--backends", "eager,nonsense"], "no backend named 'nonsense'"),
        (["--backends", ","], "names none to measure"),
        (["--backends", "eager", "--compile"], "names none to measure"),
        (["--json", "/no/such/folder/out.json"], "cannot write"),
        (["--plot", "/tmp/out.png", "--backends", "inductor"], "relative to eager"),
        (["--compile", "--memory"], "not allowed with"),
        (["--nonsense"], "unrecognized"),
    ],
)
def test_a_wrong_argument_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        cuesta_bench.main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_bench.main(["--list", "--case", "resnet18"]) == 0
    assert capsys.readouterr().out.split() == ["resnet18_eval_2x224", "resnet18_train_2x224"]


def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, picture = tmp_path / "out.json", tmp_path / "out.png"
    arguments = ["--case", "call_overhead", "--backends", "eager,aot_eager", "--repeats", "2"]
    assert cuesta_bench.main([*arguments, "--json", str(report), "--plot", str(picture)]) == 0
    assert "call_overhead_8x8" in capsys.readouterr().out
    content = json.loads(report.read_text())
    assert content["machine"]["packages"]["torch"] == torch.__version__
    result = content["times"]["call_overhead_8x8"]
    assert {name: len(times) for name, times in result["times"].items()} == {"eager": 2, "aot_eager": 2}
    assert result["errors"]["aot_eager"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_backend_that_fails_is_a_row_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    @torch._dynamo.register_backend(name="always_fails")
    def always_fails(_module: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., Any]:
        raise RuntimeError("this backend always fails")

    arguments = ["--case", "call_overhead", "--backends", "eager,always_fails", "--repeats", "1"]
    assert cuesta_bench.main(arguments) == 1
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert "this backend always fails" in printed.err
