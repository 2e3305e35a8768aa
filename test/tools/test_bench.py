"""cuesta-bench: its arithmetic on made-up numbers, its memory measurement on cases whose peak is known, its errors."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import record_function

import cuesta
from cuesta.distributions import version_of
from cuesta.tools import cuesta_bench
from cuesta.tools.bench import command, growth
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring.limits import Level, Limits
from cuesta.tools.bench.measuring.memory import measure, predicted_peak
from cuesta.tools.bench.measuring.timing import Spread, interleaved, ratios
from cuesta.tools.bench.reporting.cpu_tables import compile_table, memory_table, times_table
from cuesta.tools.bench.reporting.table import megabytes, seconds, table
from cuesta.tools.bench.workers import processes

MEGABYTE = 1_000_000


@pytest.fixture(autouse=True)
def known_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 1e9 bytes and 1e9 operations a second: measuring takes seconds."""
    limits = Limits((Level("memory", float("inf"), 1e9, 1e9),), 1e9)
    monkeypatch.setattr(command, "measured_limits", lambda *_: limits)


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
        (["--case", "("], "regular expression"),
        (["--case", "no_such_case"], "matches no case"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--repeats", "-3"], "--repeats must be at least 1"),
        (["--repeats", "x"], "invalid int"),
        (["--backends", "eager,nonsense"], "no backend named 'nonsense'"),
        (["--backends", "inductor:frozen"], "no mode 'frozen' of inductor; there are default, reduce-overhead"),
        (["--backends", "inductor:frozen"], "lite, freezing, cpp_wrapper"),
        (["--backends", "cuesta:cpp_wrapper"], "no mode 'cpp_wrapper' of cuesta"),
        (["--backends", "eager:freezing"], "no mode 'freezing' of eager, which compiles nothing"),
        (["--results", "/no/such/file.json"], "cannot read"),
        (["--backends", ","], "names no backend"),
        (["--backends", "eager", "--compile"], "names no backend"),
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


def test_a_reader_of_the_list_that_goes_away() -> None:
    command = f"{sys.executable} -m cuesta.tools.cuesta_bench --list | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, picture = tmp_path / "out.json", tmp_path / "out.png"
    arguments = ["--case", "call_overhead", "--backends", "eager,aot_eager", "--repeats", "2"]
    assert cuesta_bench.main([*arguments, "--json", str(report), "--plot", str(picture)]) == 0
    assert "call_overhead_8x8" in capsys.readouterr().out
    content = json.loads(report.read_text())
    assert content["machine"]["packages"]["torch"] == version_of("torch")
    result = content["times"]["call_overhead_8x8"]
    assert {name: len(times) for name, times in result["times"].items()} == {"eager": 2, "aot_eager": 2}
    assert result["errors"]["aot_eager"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_runs_are_read_again_and_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, pages = [tmp_path / name for name in ("a.json", "b.json")], [tmp_path / name for name in ("a.md", "b.md")]
    for case, file in zip(("call_overhead", "pointwise10_64x64"), kept, strict=True):
        arguments = ["--case", case, "--backends", "eager,aot_eager", "--repeats", "2"]
        assert cuesta_bench.main([*arguments, "--json", str(file), "--markdown", str(pages[0])]) == 0
    assert cuesta_bench.main(["--results", *map(str, kept), "--markdown", str(pages[1])]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[-8:-6]] == ["call_overhead_8x8", "pointwise10_64x64"]
    text = pages[1].read_text()
    for line in ("cuesta-bench --case call_overhead", "cuesta-bench --case pointwise10_64x64", "| call_overhead_8x8 |"):
        assert line in text
    # Two inputs and a result of 16 KiB, at 1e9 bytes a second.
    assert "| 49.2 µs memory |" in text
    assert "| 49.2 µs memory |" in pages[0].read_text()
    content = json.loads(kept[1].read_text())["times"]["pointwise10_64x64"]
    assert content["cost"]["footprint"] == 3 << 14
    median = Spread.of(content["times"]["aot_eager"]).median
    assert content["of_limit"]["aot_eager"] == pytest.approx((3 << 14) / 1e9 / median)


def test_a_run_that_is_stopped_keeps_the_cases_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(case: str, *_: Any) -> dict[str, Any]:
        if case != "softmax_12x256x256":
            raise KeyboardInterrupt
        return {"cuesta": {kind: [{"total": 2.0, "graphs": []}] for kind in ("cold", "warm")}}

    monkeypatch.setattr(command, "compile_on_cpu", rounds)
    report, page = tmp_path / "out.json", tmp_path / "out.md"
    arguments = ["--compile", "--case", "softmax|bias_gelu", "--backends", "cuesta"]
    with pytest.raises(KeyboardInterrupt):
        cuesta_bench.main([*arguments, "--json", str(report), "--markdown", str(page)])
    assert list(json.loads(report.read_text())["compile"]) == ["softmax_12x256x256"]
    assert "| softmax_12x256x256, cold |" in page.read_text()


def timed(**seconds: float) -> dict[str, Any]:
    """Of a case with a limit of 1 s; two rounds, of which the second takes twice as long."""
    names = {name.replace("_", ":", 1): s for name, s in seconds.items()}
    return {
        "times": {name: [s, 2 * s] for name, s in names.items()},
        "errors": dict.fromkeys(names, 0.0),
        "failed": {},
        "limit": {"seconds": 1.0, "by": "L2"},
        "of_limit": {name: 1.0 / (1.5 * s) for name, s in names.items()},
    }


def columns(content: Any, *names: str) -> list[list[str]]:
    return [[row[list(content.header).index(name)] for name in ("case", *names)] for row in content.rows]


def test_geometric_means_of_kernels_models_and_all() -> None:
    results = {
        "softmax_12x256x256": timed(eager=8.0, inductor=4.0, cuesta=2.0),
        "rms_norm_1024x768": timed(eager=8.0, inductor=4.0, cuesta=8.0),
        "call_overhead_8x8": timed(eager=8.0, inductor=4.0, cuesta=4.0) | {"limit": {"seconds": 1e-9, "by": "L1"}},
        "bert": timed(eager=2.0, inductor=1.0, cuesta=4.0),
        "gpt": timed(eager=1.0, inductor=1.0) | {"failed": {"cuesta": "no"}},
    }
    found = columns(times_table(results), "cuesta/inductor", "cuesta/eager", "cuesta of limit")
    assert found[4] == ["gpt", "–", "–", "–"]
    assert found[5:] == [
        ["geometric mean, 3 kernels", "1.00", "0.50", "17% (2)"],
        ["geometric mean, 2 models", "4.00 (1)", "2.00 (1)", "17% (1)"],
        ["geometric mean, 5 all", "1.41 (4)", "0.71 (4)", "17% (3)"],
    ]
    assert len(times_table({"bert": results["bert"]}).rows) == 1


def test_the_best_of_several_forms() -> None:
    results = {
        "a": timed(inductor=4.0, inductor_freezing=2.0, cuesta=1.0, cuesta_freezing=2.0),
        "b": timed(inductor=1.0, inductor_freezing=2.0, cuesta=2.0, cuesta_freezing=1.0),
    }
    names = ("cuesta/inductor", "cuesta/best inductor", "best cuesta/best inductor")
    assert columns(times_table(results), *names) == [
        ["a", "0.25 [0.25 0.25]", "0.50 [0.50 0.50] freezing", "0.50 [0.50 0.50] default freezing"],
        ["b", "2.00 [2.00 2.00]", "2.00 [2.00 2.00] default", "1.00 [1.00 1.00] freezing default"],
        ["geometric mean, 2 models", "0.71", "1.00", "0.71"],
    ]


def test_tables_of_compile_times_and_memory() -> None:
    def sampled(total: float) -> dict[str, Any]:
        return {"cold": [{"total": total, "graphs": []}], "warm": [{"total": total / 2, "graphs": []}]}

    times = {case: {"inductor": sampled(4.0), "cuesta": sampled(s)} for case, s in (("bert", 2.0), ("gpt", 0.5))}
    assert columns(compile_table(times), "cuesta/inductor") == [
        ["bert, cold", "0.50"],
        ["bert, warm", "0.50"],
        ["gpt, cold", "0.12"],
        ["gpt, warm", "0.12"],
        ["geometric mean, 2 models, cold", "0.25"],
        ["geometric mean, 2 models, warm", "0.25"],
    ]
    peaks = {"bert": {"inductor": {"error": "no"}, "cuesta": {"peak": 200, "predicted": 199}}}
    assert columns(memory_table(peaks), "inductor", "cuesta/inductor", "predicted by cuesta", "off by") == [
        ["bert", "failed", "–", "0.20 kB", "0.5%"]
    ]


def test_cuestas_freezing_is_its_option() -> None:
    layer = torch.nn.Linear(64, 64).eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = layer(x)
        return out

    torch._dynamo.reset()
    x = torch.randn(8, 64)
    with torch.no_grad():
        torch.testing.assert_close(Contender("cuesta", "freezing").compile(forward, fullgraph=True)(x), layer(x))
    assert cuesta.report().as_dict()["graphs"][-1]["frozen"] is not None


def test_inductors_settings_are_in_force_while_dynamo_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo asks them, and not the options, whether weights are constants."""
    from torch._inductor import config

    seen: list[bool] = []

    def compiled(function: Callable[..., Any], **given: Any) -> Callable[..., Any]:
        assert given == {"backend": "inductor", "options": {"freezing": True}, "fullgraph": True}
        return lambda: seen.append(config.freezing)

    monkeypatch.setattr(torch, "compile", compiled)
    call = Contender("inductor", "freezing").compile(lambda: None, fullgraph=True)
    call()
    call()
    assert seen == [True, False]
    assert not config.freezing


def test_a_backend_that_fails_is_a_row_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    @torch._dynamo.register_backend(name="always_fails")
    def always_fails(_module: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., Any]:
        raise RuntimeError("this backend always fails")

    arguments = ["--case", "call_overhead", "--backends", "eager,always_fails", "--repeats", "1"]
    assert cuesta_bench.main(arguments) == 1
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert "this backend always fails" in printed.err


def test_compile_times_of_growing_graphs_are_of_the_processor() -> None:
    whole, ours = growth.measure(*growth.ops(4))
    assert 0 < ours < whole


def test_workers_find_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    kept = Path(importlib.util.cache_from_source(growth.__file__))
    kept.unlink(missing_ok=True)
    processes.compile_sources.cache_clear()
    processes.compile_sources()
    assert kept.exists()
