"""Answers the questions of passes under `max_autotune` by timing each candidate on this machine.

Answers are remembered (choice_store.py). A graph's report lists its choices.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.cache import open_cache
from cuesta.dialects.top_module import target_of
from cuesta.driver.autotune import candidate_programs
from cuesta.driver.autotune.choice_store import Choice, choice_key, keep, remembered
from cuesta.driver.autotune.stopwatch import GpuStopwatch, Stopwatch
from cuesta.driver.cache.graph_cache import gpu_key
from cuesta.driver.loading import load
from cuesta.driver.stage_pipelines import pipeline_of, stages_after
from cuesta.errors import CompileError, DeviceError, ExecutionError
from cuesta.options import Options
from cuesta.policy.choices import Question, chosen_by
from cuesta.reports.compile_report import GraphReport, choice_text
from cuesta.runtime.executable import Executable
from cuesta.targets import CPU, Target
from cuesta.torch_private.dispatch import disable_current_modes

log = logging.getLogger("cuesta")

#: Seconds that a graph's compile spends on making and timing candidates. Later questions go by the rule of thumb.
MOST_SECONDS = 60.0

#: kind of question → builds a candidate's program and tells its level
_PROGRAMS: dict[str, Callable[[Any, str], tuple[ir.Module, str]]] = {
    "product": candidate_programs.product,
    "gemm": candidate_programs.gemm,
    "tile": candidate_programs.kernel,
}
Build = Callable[[Question, Any, str], Callable[[], object]]
Begin = Callable[[Question, Any, str], None]


@dataclass
class MeasuredChoices:
    """Answers the questions of one compile."""

    options: Options
    report: GraphReport
    #: compiles a candidate into a callable
    build: Build
    stopwatch: Stopwatch | GpuStopwatch = field(default_factory=Stopwatch)
    made: dict[str, str] = field(default_factory=dict)
    #: begins to compile a candidate in other processes; None where none are used
    begin: Begin | None = None
    #: what the answers depend on besides CPU, versions and question
    device: tuple[str, ...] = ()

    @staticmethod
    def of(options: Options, report: GraphReport, lower: Callable[..., Any], target: Target) -> MeasuredChoices:
        """`lower` is lower_module."""
        plain = replace(options, max_autotune=False, dump=None, trace_enabled=False, trace_graph_diagram=False)
        plain = replace(plain, memory_limit=None)  # the limit is for a call, and candidates are no part of one

        def build(question: Question, subject: Any, candidate: str) -> Callable[[], object]:
            module, level = _PROGRAMS[question.kind](subject, candidate)
            program = load(lower(module, plain, GraphReport("candidate"), level))
            return _call(program)

        if target == CPU:
            return MeasuredChoices(options, report, build)

        def start(question: Question, subject: Any, candidate: str) -> None:
            _begin_kernels(*_PROGRAMS[question.kind](subject, candidate), plain)

        return MeasuredChoices(options, report, build, GpuStopwatch(), begin=start, device=gpu_key(target))

    def __call__(self, question: Question, subject: Any) -> str:
        """The candidate to take: see `cuesta.policy.choices`."""
        key = choice_key(question, self.options, self.device)
        if key not in self.made:
            choice = remembered(key, question, self.options) or self._measured(key, question, subject)
            self.made[key] = choice.taken
            self.report.choices.append(choice.reported())
            log.info("max_autotune: %s (%s)", choice_text(choice.reported()), choice.source)
        return self.made[key]

    def _measured(self, key: str, question: Question, subject: Any) -> Choice:
        clock = self.stopwatch.clock
        start = clock()
        spent = self.report.times.get("measuring", 0.0)
        if spent >= MOST_SECONDS:
            return Choice.of(question, {}, f"not measured: measuring for this graph has taken {MOST_SECONDS:.0f} s")
        calls = {}
        with chosen_by(None), disable_current_modes(), torch.no_grad():
            if self.begin is not None:
                for candidate in question.candidates:
                    with contextlib.suppress(CompileError):  # building the candidate raises it again
                        self.begin(question, subject, candidate)
            for candidate in question.candidates:
                try:
                    calls[candidate] = self.build(question, subject, candidate)
                except (CompileError, DeviceError) as problem:
                    log.warning(
                        "max_autotune: %s: candidate %s does not compile: %s", question.about, candidate, problem
                    )
            try:
                times, is_reliable = self.stopwatch.race(calls) if calls else ({}, False)
            except (ExecutionError, IndexError) as problem:
                times, is_reliable = {}, False
                log.warning("max_autotune: %s: no candidate could be timed: %s", question.about, problem)
        self.report.times["measuring"] = spent + clock() - start
        if not times:
            return Choice.of(question, {}, "not measured: no candidate could be compiled and timed alone")
        keep(key, times, self.options, is_reliable)
        return Choice.measured(question, times, is_reliable)


def _begin_kernels(module: ir.Module, level: str, options: Options) -> None:
    """Begins to compile the kernels of a module for a GPU; a later lowering of the same module finds them under way."""
    from cuesta.lowering.tt_to_binary.making import kernels_of, start_kernels  # a compile for a CPU needs no Triton

    target = target_of(module)
    for stage in stages_after(level, target)[:-1]:
        pipeline_of(stage, options).run(module, verify=False)
    start_kernels(kernels_of(module), target, open_cache(options.cache_root))


def _call(program: Executable) -> Callable[[], object]:
    tensors = candidate_programs.inputs_of(program)
    return lambda: program(list(tensors))
