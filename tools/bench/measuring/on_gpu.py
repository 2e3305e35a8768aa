"""Measures one case in one process: correctness, times, memory and kernels."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cuesta.frontend.capture.tensor_cores import without_tf32
from cuesta.tools.bench.backends import failure
from cuesta.tools.bench.cases.case import Case, Subject
from cuesta.tools.bench.cases.workload import Workload
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring import accuracy, device
from cuesta.tools.bench.measuring.bandwidth import read_rate
from cuesta.tools.bench.measuring.device import Sample, sample, synchronize
from cuesta.tools.bench.measuring.kernels import busy
from cuesta.tools.bench.measuring.timing import in_turns
from cuesta.torch_private.pytree import tree_leaves

NEARBY_RUNS = 4
"""Number of eager runs with other roundings, made if an output is a single number."""
WARM_CALLS = 4
"""Calls before anything is judged: CUDA graphs are recorded in the second or third call."""
SAMPLE_SECONDS = 0.1
"""The calls of a sample together take so long. The first begins on an idle GPU, which waits for the host: with samples
of three calls, a MobileNetV3's step of 6.1 ms was measured as 6.8."""
LONG_SECONDS = 0.25
"""A call that takes longer is a sample by itself."""
CASE_SECONDS = 6.0
ROUNDS = 21
FEWEST_ROUNDS = 5

Call = Callable[[], Any]
Save = Callable[[dict[str, Any]], None]
Progress = Callable[[str], None]


def measure_case(
    case: Case,
    contenders: Sequence[Contender],
    where: torch.device,
    rounds: int | None,
    save: Save,
    progress: Progress,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The results by contender: {"contenders": {name: {…}}}. Passes them to `save` after every addition. Calls `begin`
    when all contenders are warm, before any is timed. Beside "contenders" stand the workload's "tokens" and "reads"; if
    it counts what it reads, also "read_rate", the bytes a second at which the memory is read.

    A contender that raised has "failed". The others have "compile" (seconds of the first call, with the caches that
    earlier contenders left in this process), "accuracy", "memory" (bytes above those of weights and inputs), "times"
    (samples in seconds, one a round), "kernels" and "busy" (a call's launches, and seconds within kernels) and "graphs"
    (cuesta's report of each).
    """
    progress("build")
    subject = case.make(where)
    workload = subject.workload()
    found: dict[str, Any] = {"contenders": {}, "tokens": workload.tokens, "reads": workload.reads}
    calls: dict[str, Call] = {}
    with torch.set_grad_enabled(bool(workload.parameters)):
        judge = None if case.random else judge_of(case, subject, workload, where)
        for contender in contenders:
            progress(f"first calls, {contender}")
            part: dict[str, Any] = {}
            found["contenders"][str(contender)] = part
            try:
                calls[str(contender)] = start(contender, workload, where, part, judge)
            except Exception as error:
                part |= failure(error)
                progress(f"{contender} failed: {part['failed']}")
                device.release(where)
            save(found)
        judge = None  # frees the arbiter's results
        device.release(where)
        begin()
        if workload.reads:
            found["read_rate"] = read_rate(where)
        progress("time")
        for name, samples in (interleaved(calls, where, rounds) if calls else {}).items():
            found["contenders"][name]["times"] = [asdict(s) for s in samples]
        if workload.reads:
            # Measured a second time, so that a disturbance of some seconds does not lower the rate.
            found["read_rate"] = max(found["read_rate"], read_rate(where))
        save(found)
        progress("count kernels")
        for name, call in calls.items():
            found["contenders"][name] |= busy(call, where)
        save(found)
    return found


def start(
    contender: Contender, workload: Workload, where: torch.device, part: dict[str, Any], judge: Judge | None
) -> Call:
    """Compiles and warms up a contender; fills `part` except for the times. Raises what the backend raises."""
    for parameter in workload.parameters:
        parameter.grad = None
    device.release(where)  # garbage that was freed later would make the contender's memory look smaller
    before = device.allocated(where) + device.kept_for_graphs(where)
    reported = len(reports())
    call = step_of(contender, workload)
    began = time.perf_counter()
    call()
    synchronize(where)
    if contender.compiles:
        part["compile"] = time.perf_counter() - began
    for _ in range(WARM_CALLS):
        call()
    peak = device.peak_of(where, call)
    part["memory"] = None if peak is None else peak + device.kept_for_graphs(where) - before
    if judge is not None:
        part["accuracy"] = judge(call if judge.workload is workload else step_of(contender, judge.workload))
    if contender.backend == "cuesta":
        part["graphs"] = reports()[reported:]
    return call


def step_of(contender: Contender, workload: Workload) -> Call:
    """A call of the workload that marks a new step for CUDA graphs: they may overwrite the previous call's results."""
    call = workload.compiled(contender.backend, contender.form)
    if contender.form is None:
        return call

    def step() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return call()

    return step


def reports() -> list[dict[str, Any]]:
    """cuesta's report of each graph that it has compiled since Dynamo's last reset."""
    import cuesta

    graphs: list[dict[str, Any]] = cuesta.report().as_dict()["graphs"]
    return graphs


def judge_of(case: Case, subject: Subject, workload: Workload, where: torch.device) -> Judge:
    """The judge of the case's results, or of those of what stands in for it."""
    stand_in = case.make_stand_in(where)
    return Judge(subject, workload, where) if stand_in is None else Judge(stand_in, stand_in.workload(), where)


class Judge:
    """Compares a call's results, gradients included, with eager's and with those of a wider dtype."""

    def __init__(self, subject: Subject, workload: Workload, where: torch.device) -> None:
        self.workload = workload
        self.start = [p.detach().clone() for p in workload.parameters] if workload.optimizer else []
        self.exact = exact_results(subject.wider().workload())
        self.eager = self.results(workload.compiled("eager"))
        with_gradients = zip(subject.names(), workload.parameters, strict=True)
        self.gradients = [name for name, parameter in with_gradients if parameter.grad is not None]
        outputs = len(self.eager) - len(self.gradients)
        are_numbers = [t.numel() == 1 and t.is_floating_point() for t in self.eager]
        run = results_of if any(are_numbers[outputs:]) else outputs_of
        runs = NEARBY_RUNS if any(are_numbers) else 0
        self.nearby = [_numbers(run(subject.moved(seed).workload())) for seed in range(runs)]
        device.release(where)

    def __call__(self, call: Call) -> dict[str, Any]:
        return accuracy.compare(self.results(call), self.eager, self.exact, self.gradients, self.nearby).as_dict()

    def results(self, call: Call) -> list[Tensor]:
        """Resets the parameters to their values before any optimizer step, makes a call, and returns its results."""
        with torch.no_grad():
            for parameter, value in zip(self.workload.parameters, self.start, strict=False):
                parameter.copy_(value)
        return [tensor.clone() for tensor in self.workload.results(call())]


def outputs_of(workload: Workload) -> list[Tensor]:
    """The outputs of eager's forward, without gradients."""
    with torch.no_grad():
        leaves = tree_leaves(workload.function(*workload.arguments))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def results_of(workload: Workload) -> list[Tensor]:
    """The outputs of eager's forward and the gradients."""
    return workload.results(workload.compiled("eager")())


def _numbers(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of one element, at their places; the others without their elements."""
    return [t if t.numel() == 1 else t.new_empty(0) for t in tensors]


def exact_results(workload: Workload) -> list[Tensor]:
    """Eager's results with TF32 disabled."""
    with without_tf32():
        return results_of(workload)


def interleaved(calls: Mapping[str, Call], where: torch.device, rounds: int | None) -> dict[str, list[Sample]]:
    """One sample of each call a round, in rotating order. Without `rounds`, as many rounds as CASE_SECONDS allow."""
    names = list(calls)
    counts = {name: _calls_a_sample(calls[name], where) for name in names}
    if rounds is None:
        one_round = sum(sample(where, calls[name], counts[name]).wall * counts[name] for name in names)
        rounds = max(FEWEST_ROUNDS, min(ROUNDS, int(CASE_SECONDS / one_round)))
    return in_turns({name: partial(sample, where, calls[name], counts[name]) for name in names}, rounds)


def _calls_a_sample(call: Call, where: torch.device) -> int:
    if sample(where, call, 1).wall > LONG_SECONDS:
        return 1
    seconds = statistics.median(sample(where, call, 2).wall for _ in range(3))
    return max(3, min(1000, round(SAMPLE_SECONDS / seconds)))
