"""cuesta-bench --device cuda without a GPU: the same code on the CPU, made-up profiles, tables, processes, errors."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools import cuesta_bench
from cuesta.tools.bench import command
from cuesta.tools.bench.cases import GPU_CASES
from cuesta.tools.bench.cases.case import Case, Kind, model
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring.accuracy import compare
from cuesta.tools.bench.measuring.on_gpu import NEARBY_RUNS, Judge, measure_case
from cuesta.tools.bench.reporting import gpu_page
from cuesta.tools.bench.reporting import gpu_tables as tables
from cuesta.tools.bench.reporting.gpu_page import page
from cuesta.tools.bench.reporting.results import merged, read_results
from cuesta.tools.bench.workers import processes, waves
from cuesta.tools.bench.workers.worker import HAS_TURN, WAITS
from cuesta.tools.models import Built

CPU = torch.device("cpu")


def quiet(_: Any) -> None:
    """Takes progress and results, and does nothing."""


def measured(case: Case, *contenders: str) -> dict[str, Any]:
    parsed = [Contender.parse(name) for name in contenders]
    return measure_case(case, parsed, CPU, 2, save=quiet, progress=quiet)["contenders"]


def tiny(dropout: float = 0.0) -> Built:
    layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, 4))
    return Built(layers, {"input": torch.randn(8, 16)}, torch.randint(4, (8,)), F.cross_entropy)


def scaled() -> Built:
    """A model with a weight of one element: its gradient is a sum over all others."""
    layers = nn.Sequential(nn.Linear(16, 32), nn.PReLU(), nn.Linear(32, 4))
    return Built(layers, {"input": torch.randn(8, 16)}, torch.randint(4, (8,)), F.cross_entropy)


@pytest.mark.parametrize(("build", "places"), [(tiny, [0]), (scaled, [0, 3])])
def test_what_other_eager_runs_give_of_single_numbers(build: Callable[[], Built], places: list[int]) -> None:
    subject = model("small", build, "train", torch.bfloat16).make()
    judge = Judge(subject, subject.workload(), CPU)
    assert len(judge.nearby) == NEARBY_RUNS
    for run in judge.nearby:
        assert [n for n, tensor in enumerate(run) if tensor.numel()] == places


@pytest.mark.parametrize("kind", ["eval", "train"])
def test_a_model_is_judged_and_timed(kind: Kind) -> None:
    found = measured(model("tiny", tiny, kind, torch.bfloat16), "eager", "aot_eager", "cuesta:reduce-overhead")
    assert found["eager"]["accuracy"]["outputs" if kind == "eval" else "gradients"] == 1.0
    for part in found.values():
        assert part["accuracy"]["right"]
        assert (part["accuracy"]["gradients"] is None) == (kind == "eval")
        assert len(part["times"]) == 2
        assert all(sample["device"] > 0 for sample in part["times"])
    assert len(found["cuesta:reduce-overhead"]["graphs"]) == (1 if kind == "eval" else 2)


def test_an_optimizer_step_is_compiled_whole_and_judged_from_the_same_parameters() -> None:
    """Eager's own steps lie between the two that are compared: without going back, gradients would differ."""
    found = measured(model("tiny", tiny, "adam"), "eager", "aot_eager")
    assert found["aot_eager"]["accuracy"]["right"]
    assert found["aot_eager"]["accuracy"]["gradients"] == pytest.approx(1.0, abs=0.5)


def test_what_is_random_is_not_compared() -> None:
    case = model("tiny", functools.partial(tiny, 0.5), "train", random=True)
    assert "accuracy" not in measured(case, "eager")["eager"]


def test_a_wrong_backend_is_found_and_a_failing_one_named() -> None:
    @torch._dynamo.register_backend(name="halves_results")
    def halves_results(module: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        return lambda *inputs: tuple(result / 2 for result in module(*inputs))

    @torch._dynamo.register_backend(name="refuses")
    def refuses(_module: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., Any]:
        raise RuntimeError("this backend refuses")

    found = measured(next(c for c in GPU_CASES if c.name == "fn_small_8x8"), "eager", "halves_results", "refuses")
    assert not found["halves_results"]["accuracy"]["right"]
    assert found["refuses"]["failed"] == "RuntimeError: this backend refuses"
    assert "in refuses" in found["refuses"]["traceback"]
    cases = {"case": {"contenders": found}}
    assert [row[1] for row in tables.times_table(cases).rows][2] == "failed"
    assert "WRONG" in tables.notes(cases)[0]
    assert gpu_page.has_problem({"times": cases})
    assert not gpu_page.has_problem({"times": {"case": {"contenders": {"eager": found["eager"]}}}})


def test_errors_are_multiples_of_eagers() -> None:
    exact = torch.full((4,), 1.0, dtype=torch.float64)
    eager, twice, thrice = (exact.float() + n * 1e-3 for n in (1, 2, 3))
    judged = compare([thrice, twice], [eager, eager], [exact, exact], ["weight"])
    assert judged.outputs == pytest.approx(3, rel=1e-2)
    assert judged.gradients == judged.worst == pytest.approx(2, rel=1e-2)
    assert judged.worst_name == "weight"
    assert judged.above == 1 + (judged.worst > 2)
    assert not judged.right


def test_a_single_number_is_one_draw_among_several() -> None:
    """Eager hits the loss by chance: what counts is how far runs with other roundings are off."""
    exact = torch.tensor(1.0, dtype=torch.float64)
    lucky, other, actual = torch.tensor(1.0 + 1e-6), torch.tensor(1.0 - 4e-3), torch.tensor(1.0 + 5e-3)
    assert not compare([actual], [lucky], [exact], []).right
    judged = compare([actual], [lucky], [exact], [], [[other]] * 3)
    assert judged.outputs == pytest.approx(5 / (4 * math.sqrt(0.75)), rel=1e-2)
    many = torch.ones(2)
    assert compare([many + 5e-3], [many + 1e-6], [many.double()], [], [[many - 4e-3]] * 3).outputs > 1000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_moved_weights_are_within_rounding(dtype: torch.dtype) -> None:
    subject = model("tiny", tiny, "train", dtype).make(CPU)
    before, after = ([p.detach().double() for p in s.workload().parameters] for s in (subject, subject.moved(1)))
    largest = max(float(((a - b) / b).abs().max()) for a, b in zip(after, before, strict=True))
    assert torch.finfo(dtype).eps / 2 < largest < 6 * torch.finfo(dtype).eps


def test_less_than_a_rounding_is_no_error() -> None:
    exact = torch.rand(100, dtype=torch.float64) + 1
    nearest = exact.float()
    assert compare([nearest * (1 + 2**-25)], [nearest], [exact], []).outputs == 1.0


@pytest.mark.parametrize(
    ("actual", "factor"),
    [
        (torch.tensor([1, 2]), 1.0),
        (torch.tensor([1, 3]), math.inf),
        (torch.tensor([1, 2], dtype=torch.int32), math.inf),
        (torch.tensor([1]), math.inf),
    ],
)
def test_what_is_not_floating_is_equal_or_wrong(actual: Tensor, factor: float) -> None:
    expected = torch.tensor([1, 2])
    assert compare([actual], [expected], [expected], []).outputs == factor


def test_a_nan_is_wrong() -> None:
    exact = torch.ones(2, dtype=torch.float64)
    assert compare([torch.tensor([1.0, math.nan])], [exact.float()], [exact], []).outputs == math.inf
    with pytest.raises(ValueError, match="2 results where eager has 1"):
        compare([exact, exact], [exact], [exact], [])


def run_on_cpu(*argv: str) -> int:
    """The command with the CPU in the GPU's place."""
    arguments, cases, contenders = cuesta_bench.parse(["--device", "cuda", *argv])
    return command.run(arguments, cases, contenders, "cpu", quiet)[0]


def test_a_whole_run_its_page_and_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, written, picture = tmp_path / "a.json", tmp_path / "gpu.md", tmp_path / "a.png"
    timed = ["--case", "fn_small", "--backends", "eager,cuesta", "--repeats", "2"]
    assert run_on_cpu(*timed, "--json", str(kept), "--markdown", str(written)) == 0
    assert "fn_small_8x8, cuesta" in capsys.readouterr().out
    text = written.read_text()
    assert "cuesta-bench --device cuda --case fn_small" in text
    assert "| fn_small_8x8, cuesta |" in text
    content = json.loads(kept.read_text())
    assert len(content["times"]["fn_small_8x8"]["contenders"]["cuesta"]["times"]) == 2
    assert run_on_cpu("--results", str(kept), "--markdown", str(written), "--plot", str(picture)) == 0
    assert written.read_text() == text
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run_on_cpu("--results", str(kept), "--case", "bert") == 0
    assert "fn_small" not in capsys.readouterr().out.splitlines()[-1]


def test_compile_times_of_fresh_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_on_cpu("--case", "fn_small", "--compile", "--backends", "cuesta") == 0
    rows = capsys.readouterr().out.splitlines()[2:4]
    assert rows[0].startswith("fn_small_8x8, aot_eager")
    assert rows[1].startswith("fn_small_8x8, cuesta")


def test_compile_times_of_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = iter([5.0, 9.0, 1.0, 4.0, 7.0, 3.0, 6.0, 8.0, 2.0])  # in the order that is asserted below
    asked = []

    def run_job(what: str, case: str, contenders: list[str], *_: Any) -> dict[str, Any]:
        asked.append(contenders[0])
        return {"total": next(totals), "gpu": {}}

    monkeypatch.setattr(processes, "run_job", run_job)
    found = processes.compile_case("any", ["cuesta"], "cpu", 60, 3, quiet)
    round_of = ["aot_eager", "cuesta", "cuesta"]
    assert asked == [*round_of, "cuesta", "cuesta", "aot_eager", *round_of]
    assert found["aot_eager"]["cold"]["total"] == 5.0
    assert found["cuesta"]["samples"] == {"cold": [9.0, 4.0, 8.0], "warm": [1.0, 7.0, 2.0]}
    assert (found["cuesta"]["cold"]["total"], found["cuesta"]["warm"]["total"]) == (8.0, 2.0)
    assert "any, cuesta: cold 9.00, 4.00, 8.00 s; warm 1.00, 7.00, 2.00 s" in tables.notes({"any": found})


def test_kernels_of_a_device_that_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_on_cpu("--case", "fn_small", "--kernels", "--backends", "eager") == 0
    assert "fn_small_8x8, eager" in capsys.readouterr().out


def test_channels_last_reaches_weights_and_images() -> None:
    convolution = Built(nn.Conv2d(3, 4, 3), {"input": torch.randn(2, 3, 8, 8)}, torch.zeros(1), F.mse_loss)
    subject = model("tiny", lambda: convolution, "eval", torch.bfloat16, nhwc=True).make(CPU)
    (images,) = subject.workload().arguments[0].values()
    for tensor in (images, convolution.module.weight):
        assert tensor.dtype == torch.bfloat16
        assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_a_case_that_takes_too_long_ends_and_says_so() -> None:
    found = processes.run_job("times", "fn_small_8x8", ["eager"], "cpu", None, 0.001, quiet)
    assert found["failed"] == "not done after 0.001 s"


def test_a_case_that_cannot_be_built_says_why() -> None:
    found = processes.run_job("times", "fn_small_8x8", ["eager"], "cuda:77", None, 60, quiet)
    assert "failed" in found
    assert gpu_page.has_problem({"times": {"fn_small_8x8": found}})


def test_speedups_are_taken_round_by_round() -> None:
    def timed(*seconds: float, busy: float | None = None) -> dict[str, Any]:
        return {"times": [{"device": s, "wall": s, "host": s} for s in seconds], "busy": busy}

    eager, cuesta = timed(2.0, 20.0, 2.0, busy=1.5), timed(1.0, 10.0, 1.0, busy=1.0)
    cases = {
        "a": {"contenders": {"eager": eager, "cuesta": cuesta}},
        "b": {"contenders": {"eager": eager, "inductor": {"failed": "why"}}},
        "c": {"failed": "not built"},
    }
    table = tables.speedup_table(cases)
    assert list(table.header) == ["case", "eager", "cuesta", "inductor", "cuesta, busy"]
    assert table.rows[0] == ["a", "2 s", "2.00", "–", "1.50"]
    assert table.rows[1] == ["b", "2 s", "–", "failed", "–"]
    assert table.rows[2] == ["c", "–", "–", "–", "–"]
    without_eager = tables.speedup_table({"a": {"contenders": {"cuesta": cuesta, "inductor": eager}}})
    assert list(without_eager.header) == ["case", "cuesta", "inductor", "cuesta, busy"]
    assert without_eager.rows[0] == ["a", "1 s", "0.50", "–"]


def test_runs_melt_into_one() -> None:
    first = {"machine": {"n": 1}, "commands": ["a"], "times": {"x": 1, "y": 1}}
    second = {"machine": {"n": 2}, "commands": ["b"], "times": {"y": 2}, "kernels": {"x": 3}}
    assert merged([first, second], gpu_page.SECTIONS) == {
        "machine": {"n": 2},
        "commands": ["a", "b"],
        "times": {"x": 1, "y": 2},
        "compile": {},
        "kernels": {"x": 3},
        "suite": {},
        "language": {},
    }


def test_runs_with_other_threads_do_not_melt(tmp_path: Path) -> None:
    def written(name: str, machine: dict[str, Any]) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"machine": machine, "commands": [], "times": {"x": machine}}))
        return path

    one, two = (written(f"{n}.json", {"cpu": "c", "threads": n}) for n in (1, 2))
    assert read_results([one, one], ["times"], {"x"})["times"]["x"]["threads"] == 1
    with pytest.raises(SystemExit, match=r"2\.json is of c with threads=2, .*1\.json of c with threads=1"):
        read_results([one, two], ["times"], {"x"})
    cards = [written(f"{name}.json", {"cpu": name, "gpu": {"name": name}}) for name in ("H100", "H200")]
    assert read_results(cards, ["times"], {"x"})["times"]["x"]["cpu"] == "H200"


def test_a_page_has_a_line_of_the_gpu() -> None:
    gpu = {"name": "H100", "memory": 80 << 30, "cuda": "13.0", "cudnn": 91000}
    about = {"cpu": "c", "cores": 2, "system": "s", "python": "3.12", "packages": {"torch": "2.11"}, "commit": "abc"}
    text = page(
        {"machine": about | {"time": "now", "driver": "1.2", "gpu": gpu}, "commands": ["cuesta-bench"], "times": {}}
    )
    assert "- H100, 80 GiB, driver 1.2, CUDA 13.0, cuDNN 91000" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory"], "part of every run"),
        (["--backends", "eager:reduce-overhead"], "no mode"),
        (["--backends", "cuesta:quick"], "no mode 'quick'"),
        (["--backends", "nobody:default"], "no backend named 'nobody'"),
        (["--results", "/no/such/file.json"], "cannot read"),
        (["--limit", "0"], "--limit must be at least 1"),
        (["--kernels", "--compile"], "not allowed with"),
        (["--kernels", "--plot", "/tmp/x.png"], "relative to eager"),
    ],
)
def test_a_wrong_argument_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cuesta_bench.main(["--device", "cuda", *arguments])
    assert message in capsys.readouterr().err.strip().splitlines()[-1]


def test_no_gpu_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cuesta_bench.main(["--device", "cuda", "--case", "fn_small"]) == 1
    assert "no GPU here" in capsys.readouterr().err


def test_gpu_options_need_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cuesta_bench.main(["--kernels"])
    assert "need --device cuda" in capsys.readouterr().err


def test_what_is_prepared_lies_in_the_cache(tmp_path: Path) -> None:
    told: list[str] = []
    processes.prepare(["fn_small_8x8"], ["eager", "cuesta"], "cpu", 60, 2, tmp_path, told.append)
    assert [line.rpartition(":")[0] for line in told] == ["fn_small_8x8: cuesta"]
    found = processes.run_job("times", "fn_small_8x8", ["cuesta"], "cpu", 1, 60, quiet, tmp_path)
    (graph,) = found["contenders"]["cuesta"]["graphs"]
    assert graph["cache"]["hit"]


def test_kernels_are_profiled_one_case_after_the_other() -> None:
    told: list[str] = []
    cases = ["fn_small_8x8", "fn_small_8x8"]
    found = list(waves.profile_side_by_side(cases, ["cuesta"], "cpu", 60, 2, told.append))
    assert [name for name, _ in found] == cases
    assert all(result["contenders"]["cuesta"]["rows"] is not None for _, result in found)
    turns = [line.endswith(HAS_TURN) for line in told if line.endswith((WAITS, HAS_TURN))]
    assert turns.count(True) == turns.count(False) == 2
