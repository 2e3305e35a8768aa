"""max_autotune: what is timed, what is taken, what is remembered. No real time decides anything here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.driver.autotune import measured_choices
from cuesta.driver.autotune.measured_choices import MeasuredChoices
from cuesta.driver.autotune.stopwatch import Stopwatch, winner
from cuesta.errors import CompileError, VerifyError
from cuesta.options import Options
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.libraries import compute_in_f32
from cuesta.policy.choices import Question, choose, chosen_by
from cuesta.reports.compile_report import GraphReport

QUESTION = Question("tile", "sum", "func @kernel", ("64", "16", "256"))


@dataclass
class Machine:
    """Calls that take given times, in seconds, on a clock that only they move; the n-th turn takes n times `slower`."""

    seconds: dict[str, float]
    slower: float = 0.0
    now: float = 0.0
    calls: list[str] = field(default_factory=list)

    def call(self, name: str) -> Callable[[], object]:
        def run() -> None:
            self.calls.append(name)
            self.now += self.seconds[name] + self.slower * len(self.calls)

        return run

    def race(self, watch: Stopwatch) -> dict[str, float]:
        return watch.race({name: self.call(name) for name in self.seconds})[0]

    def watch(self, **limits: Any) -> Stopwatch:
        return Stopwatch(clock=lambda: self.now, **{"waited": lambda: 0.0, **limits})


def test_the_fastest_is_found() -> None:
    machine = Machine({"64": 2.0, "16": 1.0, "256": 1.5})
    assert machine.race(machine.watch(budget=30.0)) == pytest.approx(machine.seconds)
    # Each in turn until 30 seconds a candidate are over.
    assert machine.calls[:9] == ["64", "16", "256"] * 3
    assert machine.now == pytest.approx(9.0 + 90.0)


def test_what_takes_three_times_as_long_is_not_timed_again() -> None:
    machine = Machine({"64": 1.0, "16": 3.5, "256": 2.9})
    assert machine.race(machine.watch(budget=20.0)) == pytest.approx(machine.seconds)
    assert machine.calls.count("16") == 2 and machine.calls.count("256") > 2


def test_a_few_slow_calls_give_nothing_up() -> None:
    machine = Machine({"64": 1.0, "16": 0.5})

    def sometimes() -> None:
        machine.call("16")()
        machine.now += 20.0 if machine.calls.count("16") < 4 else 0.0

    times = machine.watch(budget=0.0, fewest=4).race({"64": machine.call("64"), "16": sometimes})[0]
    assert times == pytest.approx(machine.seconds)
    machine.calls.clear()
    assert machine.watch(budget=0.0).race({"64": machine.call("64"), "16": sometimes})[0]["16"] == pytest.approx(20.5)


def test_a_call_that_always_waited_for_a_processor_is_tried_for_longer() -> None:
    machine = Machine({"64": 1.0, "16": 0.5})
    waited = 0.0

    def waits() -> None:
        nonlocal waited
        machine.call("16")()
        if machine.calls.count("16") < 20:
            waited += 20.0
            machine.now += 20.0

    calls = {"64": machine.call("64"), "16": waits}
    watch = machine.watch(budget=0.0, fewest=4, patience=1000.0, waited=lambda: waited)
    assert watch.race(calls) == (pytest.approx(machine.seconds), True)
    machine.calls.clear()
    watch = machine.watch(budget=0.0, fewest=4, patience=100.0, waited=lambda: waited)
    assert watch.race(calls) == ({"64": pytest.approx(1.0), "16": pytest.approx(20.5)}, False)


def test_a_machine_that_slows_down_changes_nothing() -> None:
    machine = Machine({"64": 1.0, "16": 0.5}, slower=0.01)
    assert winner(machine.race(machine.watch(budget=10.0)), ("64", "16"), 0.9) == "16"


def test_short_calls_are_timed_in_batches() -> None:
    machine = Machine({"64": 2e-6, "16": 1e-6})
    assert machine.race(machine.watch(rounds=1)) == pytest.approx(machine.seconds)
    assert (machine.calls.count("64"), machine.calls.count("16")) == (2 + 100, 2 + 200)


@pytest.mark.parametrize(
    ("times", "taken"),
    [
        ({"64": 1.0, "16": 0.95, "256": 2.0}, "64"),  # noise
        ({"64": 1.0, "16": 0.89, "256": 0.88}, "256"),
        ({"16": 1.0}, "64"),  # the usual one could not be timed: nothing to compare with
        ({}, "64"),
    ],
)
def test_another_is_taken_where_it_is_worth_it(times: dict[str, float], taken: str) -> None:
    assert winner(times, QUESTION.candidates, QUESTION.worth) == taken


@dataclass
class Compile:
    """A compile that asks, with programs that are no programs."""

    folder: Path | None
    machine: Machine
    built: list[str] = field(default_factory=list)
    report: GraphReport = field(default_factory=lambda: GraphReport("inference"))

    def ask(self, question: Question = QUESTION) -> str:
        def build(question: Question, subject: Any, candidate: str) -> Callable[[], object]:
            self.built.append(candidate)
            if candidate not in self.machine.seconds:
                raise CompileError("no such tile")
            return self.machine.call(candidate)

        options = Options(max_autotune=True, cache=self.folder is not None, cache_dir=self.folder)
        with chosen_by(MeasuredChoices(options, self.report, build, self.machine.watch(budget=1.0))):
            return choose(question, None)


TIMES = {"64": 1.0, "16": 0.5, "256": 0.75}


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.entry"))


def test_without_a_chooser_the_first_is_taken() -> None:
    assert choose(QUESTION, None) == "64"


def test_a_choice_is_measured_once_and_remembered(tmp_path: Path) -> None:
    first = Compile(tmp_path, Machine(TIMES))
    assert first.ask() == "16"
    assert first.built == ["64", "16", "256"]
    (made,) = first.report.choices
    assert made["times"] == pytest.approx(TIMES)
    assert {k: made[k] for k in ("kind", "about", "taken", "usual", "source")} == {
        "kind": "tile",
        "about": "sum",
        "taken": "16",
        "usual": "64",
        "source": "measured",
    }
    again = Compile(tmp_path, Machine(TIMES))
    assert again.ask() == "16"
    assert again.built == []
    assert [c["source"] for c in again.report.choices] == ["remembered"]
    assert again.report.choices[0]["times"] == pytest.approx(TIMES)


def test_another_kernel_and_other_threads_are_measured(tmp_path: Path) -> None:
    Compile(tmp_path, Machine(TIMES)).ask()
    other = Compile(tmp_path, Machine(TIMES))
    other.ask(Question("tile", "sum", "func @kernel of another text", QUESTION.candidates))
    assert other.built != []
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        wider = Compile(tmp_path, Machine(TIMES))
        wider.ask()
    finally:
        torch.set_num_threads(before)
    assert wider.built != []


@pytest.mark.parametrize("damage", ["cut", "flipped", "other candidates", "no times", "text", "deep"])
def test_a_damaged_entry_is_measured_anew(tmp_path: Path, damage: str) -> None:
    from cuesta.cache import open_cache

    Compile(tmp_path, Machine(TIMES)).ask()
    (path,) = entries(tmp_path)
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-3])
    elif damage == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        wrong = {"other candidates": '{"1": 1.0}', "no times": '{"64": null}', "text": "16", "deep": "[" * 100_000}
        assert open_cache(tmp_path).put(path.stem, wrong[damage].encode())
    again = Compile(tmp_path, Machine({**TIMES, "256": 0.1}))
    assert again.ask() == "256"
    assert Compile(tmp_path, Machine(TIMES)).ask() == "256"  # what was damaged is replaced


def test_without_a_cache_each_compile_measures() -> None:
    for _ in range(2):
        compile = Compile(None, Machine(TIMES))
        assert compile.ask() == "16"
        assert compile.built == ["64", "16", "256"]


def test_a_candidate_that_does_not_compile_is_left_out() -> None:
    compile = Compile(None, Machine({"64": 1.0, "256": 0.5}))
    assert compile.ask() == "256"
    assert compile.report.choices[0]["times"].keys() == {"64", "256"}


def test_measuring_ends_and_the_rest_is_not_remembered(tmp_path: Path) -> None:
    compile = Compile(tmp_path, Machine(TIMES))
    compile.report.times["measuring"] = measured_choices.MOST_SECONDS
    assert compile.ask() == "64"
    assert compile.built == [] and entries(tmp_path) == []
    assert "60 s" in "\n".join([c["source"] for c in compile.report.choices])


def test_the_report_says_what_was_chosen(tmp_path: Path) -> None:
    compile = Compile(tmp_path, Machine(TIMES))
    compile.ask()
    text = "\n".join(compile.report.lines())
    assert "max_autotune: 1 choice, 1 other than the rule of thumb's" in text
    assert "tile sum: 16, 500000.0 us; 64 takes 2.00 times as long" in text
    json.dumps(cuesta.report().as_dict())


class Timed:
    """Stands for the clock: candidates of that name are the fastest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *fast: str) -> None:
        self.races: list[list[str]] = []

        def race(watch: Stopwatch, calls: Mapping[str, Callable[[], object]]) -> tuple[dict[str, float], bool]:
            self.races.append(list(calls))
            for call in calls.values():
                call()
            return {name: 1e-6 if name in fast else 1e-3 for name in calls}, True

        monkeypatch.setattr(Stopwatch, "race", race)


def product(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b).relu()


def compiled(function: Callable[..., Any], *inputs: Tensor, **options: Any) -> GraphReport:
    """Compiles, compares with eager in f64, and gives the graph's report."""
    torch._dynamo.reset()
    before = torch.get_rng_state()
    actual = torch.compile(function, backend="cuesta", options=options)(*inputs)
    assert torch.equal(torch.get_rng_state(), before)
    exact = function(*(x.double() for x in inputs))
    tolerance = 1e-2 if inputs[0].dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)
    (graph,) = cuesta.report().graphs
    return graph


@pytest.mark.parametrize(("route", "dtype"), [("columns", torch.float32), ("rows", torch.bfloat16)])
def test_a_product_as_a_kernel(monkeypatch: pytest.MonkeyPatch, route: str, dtype: torch.dtype) -> None:
    Timed(monkeypatch, route)
    monkeypatch.setattr(compute_in_f32, "slow_in_products", frozenset)  # as with AVX-512
    a, b = torch.randn(5, 3, 7).to(dtype), torch.randn(5, 2, 7).to(dtype).transpose(1, 2)
    graph = compiled(product, a, b, max_autotune=True)
    assert [c["taken"] for c in graph.choices] == [route]
    assert graph.choices[0]["about"] == f"mm 5x3x7x2 {'f32' if dtype == torch.float32 else 'bf16'}"
    assert graph.aten_calls == [] and len(graph.kernels) == 1


def test_a_product_with_a_bias_as_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    Timed(monkeypatch, "columns")
    inputs = torch.randn(4), torch.randn(9, 3), torch.randn(3, 4)
    graph = compiled(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), *inputs, max_autotune=True)
    assert graph.aten_calls == [] and graph.choices[0]["about"] == "addmm 9x3x4 f32"


def test_a_kernel_cut_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(monkeypatch, "16x64")
    graph = compiled(lambda x: (x.t() * 2 + 1).contiguous(), torch.randn(512, 256), max_autotune=True)
    assert timed.races == [["32x128", "8x32", "16x64", "16x512"]]
    assert graph.choices[0]["taken"] == "16x64"


def test_tiles_that_do_not_divide_are_refused() -> None:
    text = """module { module @kernels {
      func.func @sum(%x: tensor<768xf32>, %y: tensor<768xf32>) -> tensor<768xf32>
        attributes {cuesta.parallel = [0], cuesta.sizes = [768], cuesta.tile = [5]} { return %y : tensor<768xf32> }
    } }"""
    with make_context(), pytest.raises(VerifyError, match=r"kernel sum has cuesta.tile = \[5\].* divide \[768\]"):
        Pipeline.parse("builtin.module(tile-kernels)").run(ir.Module.parse(text))


def test_a_warm_compile_measures_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed = Timed(monkeypatch, "rows")
    a, b = torch.randn(5, 3, 7), torch.randn(5, 7, 2)
    options: dict[str, Any] = {"max_autotune": True, "cache_dir": tmp_path}
    assert compiled(product, a, b, **options).choices[0]["source"] == "measured"
    assert len(timed.races) == 1
    same = compiled(product, a, b, **options)
    assert same.cache["hit"] and same.choices[0]["taken"] == "rows"
    other = compiled(lambda a, b: product(a, b) + 1, a, b, **options)
    assert not other.cache["hit"] and other.choices[0]["source"] == "remembered" and other.aten_calls == []
    assert len(timed.races) == 1
    # And nothing of it reaches who did not ask.
    plain = compiled(product, a, b, cache_dir=tmp_path)
    assert not plain.cache["hit"] and plain.choices == [] and len(plain.aten_calls) == 1
    assert len(timed.races) == 1
