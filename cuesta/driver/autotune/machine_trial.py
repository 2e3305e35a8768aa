"""Measures who computes f32 products and attention faster on this CPU: the library behind ATen, or our kernels.

The result decides where the options say "auto". It depends on the machine: MKL has 1.1 times a kernel's speed on an
Intel Xeon, and 0.4 times it on an AMD EPYC. So one specimen of each kind in a graph is timed once per machine and
thread count, and the answer is kept (choice_store.py). A kind is not timed if the result for a linear layer's product
decides it. The decision is part of the graph's cache key, and an attribute of its module. If it is remembered, no MLIR
is imported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from cuesta.driver.autotune import attention_trial, product_trial
from cuesta.driver.autotune.choice_store import Choice, choice_key, keep, remembered
from cuesta.driver.autotune.specimen import WORTH, Specimen, is_plain
from cuesta.driver.autotune.stopwatch import Stopwatch
from cuesta.driver.loading import load
from cuesta.errors import CuestaError
from cuesta.options import Options
from cuesta.policy.choices import Question
from cuesta.policy.product_kinds import KERNEL, KINDS, LIBRARY
from cuesta.reports.compile_report import GraphReport, choice_text
from cuesta.runtime.artefact import Artefact
from cuesta.targets import CPU, Target
from cuesta.torch_private.dispatch import disable_current_modes

log = logging.getLogger("cuesta")
T = TypeVar("T")

#: Times library and kernel. The decision is kept, and on a busy machine threads wait for one another: so each is called
#: at least ten times. After those, a candidate that takes 1.43 times as long as the other is not called again.
_STOPWATCH = Stopwatch(budget=0.02, fewest=10, hopeless=1.43)


def begin_kernel(specimen: Specimen, options: Options) -> Callable[[], Artefact]:
    """Begins to compile the specimen's kernel, and returns a function that waits for the program. Raises CompileError
    where none is made."""
    # Imported here: a remembered choice needs no MLIR.
    from cuesta._mlir import ir
    from cuesta.dialects import make_context
    from cuesta.driver.lower import Lowering
    from cuesta.policy.choices import chosen_by
    from cuesta.sizes import assumptions

    plain = Options(gemm=KERNEL, attention=KERNEL, opt_level=options.opt_level, cache=False, verify=False)
    with make_context(), assumptions(), chosen_by(None):
        lowering = Lowering(ir.Module.parse(specimen.module), plain, GraphReport(specimen.kind))
        lowering.run()
        return lowering.begin_code().finish


@dataclass(frozen=True)
class Trials:
    """What a process has measured, and how it measures."""

    #: Choices by key: without a cache a process measures once.
    known: dict[str, Choice] = field(default_factory=dict)
    #: Kernels that are being compiled and not timed yet, by the choice's key, with the seconds spent so far.
    begun: dict[str, tuple[Callable[[], Artefact], float]] = field(default_factory=dict)
    race: Callable[[Mapping[str, Callable[[], object]]], tuple[dict[str, float], bool]] = _STOPWATCH.race
    begin_kernel: Callable[[Specimen, Options], Callable[[], Artefact]] = begin_kernel


#: This process's. A test puts others in their place.
trials = Trials()


def decide(gm: torch.fx.GraphModule, options: Options, target: Target, report: GraphReport) -> dict[str, str]:
    """Maps each kind in a graph to LIBRARY or KERNEL, measuring if necessary; fills the report."""
    return decide_kinds(kinds_of(gm, options, target), options, report)


def kinds_of(gm: torch.fx.GraphModule, options: Options, target: Target) -> list[str]:
    """The kinds in a graph that are decided by measuring.

    None for another target, for options that say who computes the kind, on a CPU without AVX-512, or where torch is to
    use deterministic algorithms.
    """
    if target != CPU or options.bitwise_eager or not is_measured():
        return []
    asked = [(options.gemm, product_trial.kinds), (options.attention, attention_trial.kinds)]
    return [name for who, kinds in asked if who == "auto" for name in kinds(gm)]


def decide_kinds(names: Sequence[str], options: Options, report: GraphReport) -> dict[str, str]:
    """As `decide`, for the names of kinds, in a process that does not have the graph."""

    def measure(key: str, question: Question, specimen: Specimen) -> Choice:
        return _measured(key, question, specimen, options, report)

    return _told({name: _choice(_specimen(name), options, measure) for name in names}, report)


def recall_kinds(names: Sequence[str], options: Options, report: GraphReport) -> dict[str, str] | None:
    """As `decide_kinds`, but None if something would have to be measured."""
    known = {name: _choice(_specimen(name), options, lambda *_: None) for name in names}
    found = {name: choice for name, choice in known.items() if choice is not None}
    return _told(found, report) if len(found) == len(known) else None


def _told(chosen: Mapping[str, Choice], report: GraphReport) -> dict[str, str]:
    report.products = [choice.reported() for choice in chosen.values()]
    return {name: choice.taken for name, choice in chosen.items()}


def _specimen(name: str) -> Specimen:
    return product_trial.specimen_of(KINDS[name]) if name in KINDS else attention_trial.ALL[name]


def is_measured() -> bool:
    """Whether choices may be measured on this machine."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and not torch.are_deterministic_algorithms_enabled()


def begin(gm: torch.fx.GraphModule, options: Options) -> None:
    """Starts LLVM on the kernel that `decide` will time first, if Dynamo's graph has products and no answer is known.

    LLVM releases the GIL, so AOTAutograd traces meanwhile.
    """
    if options.target not in (None, CPU) or options.bitwise_eager or not is_measured():
        return
    asked = [(options.gemm, product_trial.CALLED), (options.attention, attention_trial.CALLED)]
    called = {function for who, functions in asked if who == "auto" for function in functions}
    values = (node.meta.get("example_value") for node in gm.graph.nodes if node.target in called)
    if not any(is_plain(value) and value.device.type == "cpu" for value in values):
        return
    specimen = product_trial.linear_layer()
    question = _question(specimen)
    key = choice_key(question, options)
    if key in trials.known or key in trials.begun or remembered(key, question, options) is not None:
        return
    start = time.perf_counter()
    try:
        with disable_current_modes():
            trials.begun[key] = trials.begin_kernel(specimen, options), time.perf_counter() - start
    except CuestaError as problem:
        log.info("a kernel to time does not compile yet: %s; the timing itself tries again", problem)


def _choice(specimen: Specimen, options: Options, measure: Callable[[str, Question, Specimen], T]) -> Choice | T:
    """The known choice for a specimen, else the result of `measure`."""
    question = _question(specimen)
    if specimen.like is not None:
        told = _choice(specimen.like, options, measure)
        if not isinstance(told, Choice):
            return told
        ratio = told.times[KERNEL] / told.times[LIBRARY] if len(told.times) == 2 else 1.0
        if not specimen.clear[0] < ratio < specimen.clear[1]:
            source = f"as for {told.about}, where a kernel takes {ratio:.2f} of the library's time"
            return Choice(question.kind, question.about, told.taken, LIBRARY, {}, source)
    key = choice_key(question, options)
    if key not in trials.known:
        found = remembered(key, question, options) or measure(key, question, specimen)
        if not isinstance(found, Choice):
            return found
        trials.known[key] = found
        log.info("%s (%s)", choice_text(found.reported()), found.source)
    return trials.known[key]


def _question(specimen: Specimen) -> Question:
    return Question(specimen.kind, specimen.about, specimen.key, (LIBRARY, KERNEL), WORTH)


def _measured(key: str, question: Question, specimen: Specimen, options: Options, report: GraphReport) -> Choice:
    start = time.perf_counter()
    begun, seconds = trials.begun.pop(key, (None, 0.0))
    # The library is timed as a program calls it: without torch's modes that are active while a graph is compiled.
    with disable_current_modes(), torch.no_grad(), torch.autocast("cpu", enabled=False):
        inputs = specimen.inputs()
        try:
            finish = begun or trials.begin_kernel(specimen, options)
            import cuesta.frontend.importer  # noqa: F401  the graph needs it next, and LLVM is still at work

            program = load(finish())
            calls = {LIBRARY: lambda: specimen.library(*inputs), KERNEL: lambda: program(list(inputs))}
            times, is_reliable = trials.race(calls)
        except CuestaError as problem:
            log.warning("%s of f32 stay in the library: no kernel could be timed: %s", specimen.kind, problem)
            return Choice.of(question, {}, f"not measured: {problem}")
    keep(key, times, options, is_reliable)
    report.times["measuring"] = report.times.get("measuring", 0.0) + seconds + time.perf_counter() - start
    return Choice.measured(question, times, is_reliable)
