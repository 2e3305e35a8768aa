"""Who computes products on this machine: measured once, remembered, part of a program's key. No real time decides."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta._mlir import ir
from cuesta.cache import open_cache
from cuesta.dialects import make_context
from cuesta.driver import compile_graph
from cuesta.driver.autotune import attention_trial, choice_store, machine_trial, product_trial
from cuesta.driver.background import service, worker
from cuesta.driver.lower import lower_module
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary.kernel import unpack
from cuesta.options import Options
from cuesta.policy.product_kinds import KERNEL, KINDS, LIBRARY
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact


class Machine:
    """A machine whose clock says what it is told: seconds of the library's product and of a kernel's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = {LIBRARY: 2e-3, KERNEL: 1e-3}
        self.is_busy = False
        self.races = 0
        self.begin_kernel = machine_trial.begin_kernel
        self._monkeypatch = monkeypatch
        self.restart()

    def race(self, calls: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, float], bool]:
        self.races += 1
        one, other = (call() for call in calls.values())
        results = [x[0] if isinstance(x, (list, tuple)) else x for x in (one, other)]
        torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3)
        return dict(self.times), not self.is_busy

    def restart(self) -> None:
        """Another process."""
        self.trials = machine_trial.Trials(race=self.race, begin_kernel=lambda *given: self.begin_kernel(*given))
        self._monkeypatch.setattr(machine_trial, "trials", self.trials)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(machine_trial, "is_measured", lambda: True)
    return Machine(monkeypatch)


WEIGHT = torch.randn(96, 64, generator=torch.Generator().manual_seed(1))


def layer(x: Tensor) -> Tensor:
    return F.gelu(F.linear(x, WEIGHT))


def compiled(folder: Path | None, function: Callable[..., Tensor] = layer, **options: Any) -> GraphReport:
    torch._dynamo.reset()
    x = torch.randn(200, 64)
    options = {"cache_dir": folder, **options} if folder is not None else {"cache": False, **options}
    torch.testing.assert_close(
        torch.compile(function, backend="cuesta", options=options)(x), function(x), rtol=1e-4, atol=1e-5
    )
    (graph,) = cuesta.report().graphs
    return graph


def taken(graph: GraphReport) -> dict[str, str]:
    return {choice["about"]: choice["taken"] for choice in graph.products}


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.entry"), key=lambda path: path.stat().st_size)


def test_the_faster_computes_products_and_the_report_says_so(machine: Machine, tmp_path: Path) -> None:
    graph = compiled(tmp_path)
    assert taken(graph) == {"across": KERNEL} and not graph.aten_calls
    assert "products across: kernel, 1000.0 us; library takes 2.00 times as long" in str(cuesta.report())
    machine.times[LIBRARY] = 1.03e-3  # what is within a twentieth is noise
    machine.restart()
    graph = compiled(tmp_path / "other")
    assert taken(graph) == {"across": LIBRARY} and len(graph.aten_calls) == 1


def test_it_is_measured_once_and_remembered(machine: Machine, tmp_path: Path) -> None:
    first = compiled(tmp_path)
    assert min(first.times.values()) >= 0, "LLVM began before the graph's key was asked for"
    compiled(tmp_path, lambda x: layer(x) + 1)
    assert machine.races == 1
    machine.restart()
    again = compiled(tmp_path)
    assert machine.races == 1 and again.cache["hit"]
    assert [choice["source"] for choice in again.products] == ["remembered"]


def test_what_a_busy_machine_measured_is_not_remembered_for_long(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.is_busy = True
    machine.times[KERNEL] = 6e-3
    (choice,) = compiled(tmp_path).products
    assert (choice["taken"], choice["source"]) == (LIBRARY, "measured while other programs ran")
    machine.is_busy = False
    machine.times[KERNEL] = 1e-3
    machine.restart()
    assert taken(compiled(tmp_path)) == {"across": LIBRARY} and machine.races == 1
    now = time.time()
    monkeypatch.setattr(choice_store.time, "time", lambda: now + 601)
    machine.restart()
    assert taken(compiled(tmp_path)) == {"across": KERNEL} and machine.races == 2


def test_llvm_begins_before_aotautograd_traces(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: order.append(name) or function(*given)

    machine.begin_kernel = noted("begin kernel", machine.begin_kernel)
    monkeypatch.setattr(compile_graph, "look_up", noted("look up", compile_graph.look_up))
    compiled(tmp_path)
    assert order == ["begin kernel", "look up"] and machine.races == 1
    compiled(tmp_path, lambda x: layer(x) + 1)
    compiled(tmp_path, torch.exp)
    machine.restart()
    compiled(tmp_path, gemm="kernel")
    assert order.count("begin kernel") == 1 and not machine.trials.begun


def test_without_a_cache_a_process_measures_once(machine: Machine) -> None:
    compiled(None)
    compiled(None, lambda x: layer(x) + 1)
    assert machine.races == 1
    machine.restart()
    compiled(None)
    assert machine.races == 2


def test_another_machine_and_other_threads_measure(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled(tmp_path)
    monkeypatch.setattr(choice_store, "environment_key", lambda: "another CPU")
    compiled(tmp_path)
    assert machine.races == 2
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        compiled(tmp_path)
    finally:
        torch.set_num_threads(before)
    assert machine.races == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "other candidates", "no number"])
def test_a_damaged_entry_is_measured_anew(machine: Machine, tmp_path: Path, damage: str) -> None:
    compiled(tmp_path)
    entry = entries(tmp_path)[0]
    data = entry.read_bytes()
    if damage == "cut":
        entry.write_bytes(data[:-3])
    elif damage == "flipped":
        entry.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        wrong = {
            "text": "kernel",
            "other candidates": '{"times": {"mkl": 1.0}, "until": null}',
            "no number": '{"times": {"kernel": "1"}, "until": null}',
        }[damage]
        assert open_cache(tmp_path).put(entry.stem, wrong.encode())
    machine.restart()
    assert taken(compiled(tmp_path)) == {"across": KERNEL} and machine.races == 2
    machine.restart()
    compiled(tmp_path)
    assert machine.races == 2  # what was damaged is replaced


def test_a_program_of_another_decision_is_not_used(machine: Machine, tmp_path: Path) -> None:
    assert not compiled(tmp_path).aten_calls
    machine.times = {LIBRARY: 1e-3, KERNEL: 2e-3}
    machine.restart()
    entries(tmp_path)[0].unlink()  # the decision; the program stays
    other = compiled(tmp_path)
    assert not other.cache["hit"] and len(other.aten_calls) == 1
    machine.restart()
    assert compiled(tmp_path).cache["hit"]


@pytest.mark.parametrize("options", [{"gemm": "library"}, {"gemm": "kernel"}, {"bitwise_eager": True}])
def test_who_says_who_computes_measures_nothing(machine: Machine, options: dict[str, Any]) -> None:
    assert taken(compiled(None, lambda x: F.linear(x, WEIGHT), **options)) == {} and machine.races == 0


def test_a_graph_without_products_measures_nothing(machine: Machine) -> None:
    assert taken(compiled(None, lambda x: x.relu())) == {} and machine.races == 0


def test_with_deterministic_algorithms_the_clock_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert machine_trial.is_measured()
    torch.use_deterministic_algorithms(True)
    try:
        assert not machine_trial.is_measured()
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not machine_trial.is_measured()


def test_a_kernel_that_is_not_made_leaves_the_library(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*rest: Any) -> None:
        raise CompileError("LLVM refused the module")

    machine.begin_kernel = fail
    said: list[str] = []
    monkeypatch.setattr(logging.getLogger("cuesta"), "warning", lambda text, *rest: said.append(text % rest))
    graph = compiled(None)
    assert taken(graph) == {"across": LIBRARY} and len(graph.aten_calls) == 1
    (warning,) = said
    assert "products of f32" in warning and "LLVM refused the module" in warning


def test_each_kind_s_specimen_is_a_kernel() -> None:
    specimens = [*map(product_trial.specimen_of, KINDS.values()), *attention_trial.ALL.values()]
    for specimen in specimens:
        with make_context():
            report, module = GraphReport(specimen.kind), ir.Module.parse(specimen.module)
            lower_module(module, Options(gemm=KERNEL, attention=KERNEL, cache=False), report)
        assert (report.launches, report.aten_calls) == (1, []), specimen.name


def test_a_step_s_kinds(machine: Machine) -> None:
    torch._dynamo.reset()
    x, w = torch.randn(40, 48, requires_grad=True), torch.randn(64, 48, requires_grad=True)
    F.linear(x, w).square().sum().backward()
    expected = [x.grad, w.grad]
    x.grad = w.grad = None
    torch.compile(lambda x: F.linear(x, w).square().sum(), backend="cuesta", options={"cache": False})(x).backward()
    torch.testing.assert_close([x.grad, w.grad], expected)
    assert [set(taken(graph)) for graph in cuesta.report().graphs] == [{"across"}, {"along", "turned"}]
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)


def step_of(layer: Callable[[Tensor, Tensor], Tensor]) -> list[GraphReport]:
    """What is reported of a training step without a cache."""
    torch._dynamo.reset()
    x, w = torch.randn(40, 48, requires_grad=True), torch.randn(64, 48, requires_grad=True)
    torch.compile(lambda x: layer(x, w).square().sum(), backend="cuesta", options={"cache": False})(x).backward()
    return cuesta.report().graphs


@pytest.mark.parametrize(
    ("kernel", "who", "races"), [(0.7e-3, KERNEL, 1), (0.72e-3, KERNEL, 3), (1.1e-3, LIBRARY, 3), (1.2e-3, LIBRARY, 1)]
)
def test_a_clear_answer_of_one_kind_is_the_others(machine: Machine, kernel: float, who: str, races: int) -> None:
    machine.times = {LIBRARY: 1e-3, KERNEL: kernel}
    graphs = step_of(F.linear)
    assert [taken(graph) for graph in graphs] == [{"across": who}, {"along": who, "turned": who}]
    assert machine.races == races
    lines = [line for line in str(cuesta.report()).splitlines() if f"products along: {who}; " in line]
    inferred = ["across" in line and f"{kernel * 1e3:.2f}" in line for line in lines]
    assert any(inferred) == (races == 1)
    machine.restart()
    assert taken(compiled(None, lambda x: x @ WEIGHT.t().contiguous())) == {"along": who}  # whatever is asked first


def test_a_convolution_of_one_element_is_a_product(machine: Machine) -> None:
    weight = torch.randn(64, 32, 1, 1)

    def convolution(x: Tensor) -> Tensor:
        return F.conv2d(x.reshape(4, 5, 10, 64).permute(0, 3, 1, 2)[:, :32], weight)

    assert taken(compiled(None, convolution)) == {"across": KERNEL}


def test_what_is_in_force_where_a_graph_is_compiled_is_not_where_it_is_measured(machine: Machine) -> None:
    torch._dynamo.reset()
    x = torch.randn(200, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        made = torch.compile(lambda x: x.float() @ WEIGHT.t(), backend="cuesta", options={"cache": False})
        with torch.autocast("cpu", enabled=False):
            made(x)
    assert machine.races == 1  # which compares the two in f32


class Listener:
    """Stands in for the service of a tier's worker."""

    def __init__(self) -> None:
        self.jobs: list[service.Job] = []

    def submit(self, job: service.Job) -> None:
        self.jobs.append(job)


def first_tier(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[service.Job, dict[str, Any], bytes]:
    """What a first tier asks of another process, its request unpacked."""
    listener = Listener()
    monkeypatch.setattr(service, "running_service", lambda: listener)
    torch._dynamo.reset()
    x = torch.randn(200, 64)
    made = torch.compile(layer, backend="cuesta", options={"tiered": True, "cache": False, **options})
    torch.testing.assert_close(made(x), layer(x))
    (job,) = listener.jobs
    head, module = unpack(job.request)
    return job, head, module


def test_another_process_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is known is not measured by a tier's worker: the module says who computes products."""
    compiled(tmp_path, lambda x: layer(x) + 1)
    _, head, module = first_tier(monkeypatch, cache=True, cache_dir=tmp_path)
    with make_context() as context:
        assert 'cuesta.products = {across = "kernel"}' in str(ir.Module.parse(module, context))
    _, code = worker.answer_to(head, module)
    assert machine.races == 1
    assert Artefact.from_bytes(code).metadata["report"]["aten_calls"] == []


@pytest.mark.parametrize("known", [False, True])
def test_what_is_compiled_at_once_goes_by_what_is_measured(machine: Machine, tmp_path: Path, known: bool) -> None:
    machine.times[KERNEL] = 3e-3
    if known:
        compiled(tmp_path, lambda x: layer(x) + 1)
    graph = compiled(tmp_path, tiered=True, memory_limit=1 << 30)
    assert machine.races == 1 and taken(graph) == {"across": LIBRARY} and len(graph.aten_calls) == 1
    machine.restart()
    again = compiled(tmp_path, tiered=True, memory_limit=1 << 30)
    assert again.cache["hit"] and machine.races == 1


@pytest.mark.parametrize(("kernel", "who"), [(1e-3, KERNEL), (3e-3, LIBRARY)])
def test_a_first_tier_leaves_the_measuring_to_another_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel: float, who: str
) -> None:
    machine.times[KERNEL] = kernel
    job, head, module = first_tier(monkeypatch, cache=True, cache_dir=tmp_path)
    (graph,) = cuesta.report().graphs
    assert machine.races == 0 and graph.products == [] and head["unknown"] == ["across"]
    machine.restart()
    job.finish(worker.answer_to(head, module))
    assert machine.races == 1 and taken(graph) == {"across": who}
    assert len(graph.aten_calls) == (0 if who == KERNEL else 1)
    machine.restart()
    again = compiled(tmp_path, tiered=True)
    assert machine.races == 1 and again.cache["hit"] and taken(again) == {"across": who}


@pytest.mark.parametrize(
    ("kernel", "who", "races"), [(0.7e-3, KERNEL, 1), (0.94e-3, KERNEL, 1), (0.97e-3, LIBRARY, 3), (2e-3, LIBRARY, 3)]
)
def test_attention_is_as_products_are_where_the_library_is_slow_and_else_measured(
    machine: Machine, kernel: float, who: str, races: int
) -> None:
    machine.times = {LIBRARY: 1e-3, KERNEL: kernel}

    def attention(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)

    torch._dynamo.reset()
    x = torch.randn(1, 2, 16, 8, requires_grad=True)
    options = {"cache": False, "gemm": "library"}
    torch.compile(attention, backend="cuesta", options=options)(x).sum().backward()
    forward, backward = cuesta.report().graphs
    lines = [line for line in str(cuesta.report()).splitlines() if f"attention forward: {who}; " in line]
    inferred = ["across" in line and f"{kernel * 1e3:.2f}" in line for line in lines]
    assert any(inferred) == (races == 1)
    assert [taken(forward), taken(backward)] == [{"forward": who}, {"backward": who}]
    assert machine.races == races
    assert [not forward.aten_calls, not backward.aten_calls] == [who == KERNEL] * 2
    assert taken(compiled(None, lambda x: attention(x[None, None]), gemm="library", attention="library")) == {}


@pytest.mark.parametrize("queries", [1, 4])
def test_attention_of_few_queries_is_the_librarys(machine: Machine, queries: int) -> None:
    def attention(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x[None, None, :queries], x[None, None], x[None, None])

    assert compiled(None, attention, gemm="library").aten_calls


def test_attention_by_hand_is_measured_too(machine: Machine) -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT * 0.125, -1) @ v

    torch._dynamo.reset()
    made = torch.compile(attention, backend="cuesta", options={"cache": False, "gemm": "library"})
    made(*torch.randn(3, 1, 6, 1024, 16))
    (graph,) = cuesta.report().graphs
    assert taken(graph) == {"forward": KERNEL} and not graph.aten_calls
