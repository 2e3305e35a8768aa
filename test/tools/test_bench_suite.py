"""cuesta-bench --suite without a GPU: small cases on the CPU, made-up results, and the table of models."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuesta.tools import cuesta_bench
from cuesta.tools.bench import command
from cuesta.tools.bench.cases import GPU_CASES, SUITE_CASES
from cuesta.tools.bench.cases.case import BF16, F32, Case, Model, model
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring.on_gpu import measure_case
from cuesta.tools.bench.reporting import suite_tables as tables
from cuesta.tools.bench.reporting.results import merged
from cuesta.tools.bench.workers.processes import _Clock
from cuesta.tools.bench.workers.worker import HAS_TURN, WAITS
from cuesta.tools.models import DASHBOARD
from cuesta.tools.models.case import Built
from cuesta.tools.models.dashboard import without_dropout


def run_on_cpu(cases: list[Case], *argv: str) -> int:
    """The command with the CPU in the GPU's place, and with these cases in place of the suite's."""
    arguments, _, contenders = cuesta_bench.parse(["--device", "cuda", "--suite", *argv])
    return command.run(arguments, cases, contenders, "cpu", lambda _: None)[0]


def test_a_wave_compiles_and_times_and_one_failure_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, written, picture = tmp_path / "a.json", tmp_path / "suite.md", tmp_path / "a.png"
    cases = [case for case in GPU_CASES if case.name in ("fn_small_8x8", "fn_misaligned_100000")]
    missing = Case("others/missing_eval", lambda: None)  # type: ignore[arg-type, return-value]
    backends = ["--backends", "eager,cuesta,cuesta:reduce-overhead", "--repeats", "2", "--prepare", "2"]
    assert run_on_cpu([missing, *cases], *backends, "--json", str(kept), "--markdown", str(written)) == 1
    suite = json.loads(kept.read_text())["suite"]
    assert "others/missing_eval" in suite["others/missing_eval"]["failed"]
    for case in cases:
        found = suite[case.name]
        assert tables.is_right(found)
        assert found["cold"]["cuesta"]["total"] > 0
        assert [len(part["times"]) for part in found["contenders"].values()] == [2, 2, 2]
    assert suite["fn_small_8x8"]["processes"] in (1, 2)
    everything = [missing, *cases]
    assert run_on_cpu(everything, "--results", str(kept), "--markdown", str(written), "--plot", str(picture)) == 1
    assert "| others/missing_eval | failed |" in written.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "fn_small_8x8" in capsys.readouterr().out


def test_without_cold_compile_times_the_process_that_times_compiles(tmp_path: Path) -> None:
    kept = tmp_path / "a.json"
    cases = [case for case in GPU_CASES if case.name == "fn_small_8x8"]
    assert run_on_cpu(cases, "--backends", "eager,cuesta", "--repeats", "2", "--no-cold", "--json", str(kept)) == 0
    found = json.loads(kept.read_text())["suite"]["fn_small_8x8"]
    assert tables.is_right(found) and found["cold"] == {}
    assert found["contenders"]["cuesta"]["compile"] > 0
    with pytest.raises(SystemExit):
        cuesta_bench.parse(["--device", "cuda", "--no-cold"])


def timed(*seconds: float, memory: int = 100, right: bool = True) -> dict[str, Any]:
    samples = [{"device": s, "wall": s, "host": s} for s in seconds]
    accuracy = {"right": right, "outputs": 3.0, "gradients": None}
    return {"times": samples, "memory": memory, "accuracy": accuracy}


def made_up() -> dict[str, dict[str, Any]]:
    about = {"commit": "abc", "processes": 8}
    good = {"eager": timed(4.0), "cuesta": timed(1.0), "inductor": timed(2.0)}
    bad = {"eager": timed(4.0), "cuesta": timed(4.0, memory=150, right=False), "inductor": timed(2.0)}
    return {
        "timm/a_eval": about | {
            "contenders": good, "cold": {"cuesta": {"total": 1.0}, "inductor": {"total": 4.0}}
        },
        "timm/b_eval": about | {
            "contenders": bad, "cold": {"cuesta": {"total": 3.0}, "inductor": {"total": 4.0}}
        },
        "others/c_train": about | {"failed": "not done after 300 s", "cold": {}},
    }  # fmt: skip


def test_means_are_taken_of_families_and_kinds() -> None:
    rows = {row[0]: row[1:] for row in tables.means_table(made_up()).rows}
    assert rows["timm, eval"] == ["2", "1", "2.00 / –", "2.00 / –", "1.00 / –", "1.22 / –", "0.43 / –"]
    assert rows["all, train"][:3] == ["1", "0", "– / –"]
    assert tables.relative_of_groups(made_up())["timm, eval (2)"]["cuesta"].median == pytest.approx(0.5)


def test_a_case_is_merged_from_runs_of_its_modes() -> None:
    """The mode that a later run does not have stays, beside the eager calls that it took turns with."""

    def run(commit: str, *contenders: str, eager: float, ours: float) -> dict[str, Any]:
        theirs = {name: timed(ours if name.startswith("cuesta") else 2.0) for name in contenders}
        case = {"commit": commit, "processes": 2, "cold": {}, "contenders": {"eager": timed(eager)} | theirs}
        return {"machine": {}, "suite": {"timm/a_eval": case}}

    recorded = ("cuesta:reduce-overhead", "inductor:reduce-overhead")
    first = run("a", *recorded, eager=4.0, ours=1.0)
    first["suite"]["timm/a_eval"] |= {"failed": "not done after 300 s", "cold": {"cuesta": {"total": 3.0}}}
    runs = [first, run("b", "cuesta", "inductor", eager=6.0, ours=1.0), run("c", "cuesta", eager=6.0, ours=3.0)]
    cases = merged(runs, ["suite"])["suite"]
    assert tables.ratios_of(cases["timm/a_eval"])["cuesta × eager"] == {"default": 2.0, "reduce-overhead": 4.0}
    # Inductor's time in default mode is of another run than cuesta's.
    assert tables.ratios_of(cases["timm/a_eval"])["over inductor"] == {"reduce-overhead": 2.0}
    assert tables.origins(cases) == [
        "1 cases compiled cold of commit a, 2 compiled side by side",
        "1 cases in default mode of commit c, 2 compiled side by side",
        "1 cases in reduce-overhead mode of commit a, 2 compiled side by side",
    ]
    assert "failed" not in cases["timm/a_eval"]


def test_a_later_run_of_cold_compiles_leaves_the_times() -> None:
    times = {"eager": timed(4.0), "cuesta": timed(2.0)}
    first = {"commit": "a", "processes": 2, "cold": {"cuesta": {"total": 3.0}}, "contenders": times}
    later = {"cold": {"cuesta": {"total": 1.0, "commit": "b"}}, "contenders": {}}
    runs = [{"machine": {}, "suite": {"timm/a_eval": case}} for case in (first, later)]
    case = merged(runs, ["suite"])["suite"]["timm/a_eval"]
    assert case["contenders"]["eager"] == times["eager"] and case["cold"]["cuesta"]["total"] == 1.0
    assert tables.ratios_of(case)["cuesta × eager"] == {"default": 2.0}


def test_times_of_two_runs_are_not_compared() -> None:
    first, later = (
        {"commit": commit, "processes": 2, "cold": {}, "contenders": times}
        for commit, times in (("a", {"eager": timed(4.0)}), ("b", {"cuesta": timed(2.0)}))
    )
    runs = [{"machine": {}, "suite": {"timm/a_eval": case}} for case in (first, later)]
    assert "default" not in tables.ratios_of(merged(runs, ["suite"])["suite"]["timm/a_eval"])["cuesta × eager"]


def test_what_falls_short_is_listed() -> None:
    wrong, failed = tables.shortfalls(made_up())
    assert wrong.startswith("timm/b_eval: cuesta is wrong: outputs 3, gradients 0 times eager's error")
    for text in ("0.50 of Inductor's speed (default)", "1.50 of Inductor's memory", "0.75 of Inductor's cold compile"):
        assert text in wrong
    assert failed == "others/c_train: failed: not done after 300 s"


def test_a_share_of_the_suite_is_chosen() -> None:
    _, cases, _ = cuesta_bench.parse(
        ["--device", "cuda", "--suite", "--case", "^timm.*eval", "--first", "2", "--count", "3"]
    )
    assert [case.name for case in cases] == [f"timm/{m.name}_eval" for m in DASHBOARD[2:5]]


def test_the_suite_has_enough_models_and_no_name_twice() -> None:
    families = [m.family for m in DASHBOARD]
    assert families.count("timm") >= 30
    assert families.count("transformers") >= 25
    assert families.count("torchvision") + families.count("others") >= 10
    assert len({case.name for case in SUITE_CASES}) == len(SUITE_CASES) == 2 * len(DASHBOARD)


def test_a_small_network_trains_with_autocast_and_is_judged() -> None:
    def build() -> Built:
        parts = torch.nn.EmbeddingBag(100, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        return Built(torch.nn.Sequential(*parts), {"input": torch.randint(100, (8, 5))}, torch.randint(4, (8,)), _loss)

    case = model("bags", build, "train", F32, autocast=BF16, whole=False)
    names = ["eager", "aot_eager"]
    found = measure_case(
        case, [Contender.parse(n) for n in names], torch.device("cpu"), 1, lambda _: None, lambda _: None
    )["contenders"]
    assert all(found[name]["accuracy"]["right"] for name in names)


def _loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs.float(), targets)


def test_all_parameters_are_on_the_device() -> None:
    """Some modules make a parameter by torch.Tensor(…), which is on the CPU whatever the default device."""

    class Masked(torch.nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 3)
            self.mask = torch.nn.Parameter(torch.Tensor(3))

    def build() -> Built:
        return Built(Masked(), {"input": torch.randn(4, 2)}, torch.zeros(4), torch.nn.functional.mse_loss)

    subject = model("masked", build, "eval").make(torch.device("meta"))
    assert isinstance(subject, Model)
    assert {parameter.device.type for parameter in subject.built.module.parameters()} == {"meta"}


def test_a_worker_that_waits_for_its_turn_uses_no_time() -> None:
    clock = _Clock(1000)
    clock.note(WAITS)
    assert clock.end == float("inf")
    clock.note(HAS_TURN)
    assert 0 < clock.end < float("inf")
    assert _Clock(None).left() is None


def test_nothing_is_dropped_at_random() -> None:
    class DropPath(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop_prob = 0.1

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = SimpleNamespace(drop_path_rate=0.1, attention_probs_dropout=0.2, layer_norm_eps=1e-6)
            self.drop, self.path = torch.nn.Dropout2d(0.3), DropPath()

    block = without_dropout(Block())
    assert (block.drop.p, block.path.drop_prob) == (0.0, 0.0)
    assert vars(block.config) == {"drop_path_rate": 0.0, "attention_probs_dropout": 0.0, "layer_norm_eps": 1e-6}
