"""Lowers a module through every stage to an artefact: machine code and the metadata that the runtime reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

import cuesta.dialects as dialects
from cuesta._mlir import func, ir
from cuesta.cache import open_cache
from cuesta.dialects import host
from cuesta.dialects.graph_function import MEMORY, REMARKS
from cuesta.dialects.top_module import known_sizes, mark_module, target_of, zeros_of
from cuesta.driver.autotune.kernel_traffic import kernel_functions, launch_bytes
from cuesta.driver.dump.logs import tell_stage
from cuesta.driver.dump.reproducer import LoweringFailed, as_text
from cuesta.driver.dump.stages import Dump
from cuesta.driver.late.late_code import Begun, wait_all
from cuesta.driver.loading import load
from cuesta.driver.stage_pipelines import KERNELS_CODE, MACHINE_CODE, PLANNING, pipeline_of, stages_after
from cuesta.errors import CompileError, Unsupported
from cuesta.lowering.host_to_llvm import WORDS
from cuesta.lowering.host_to_llvm.describe import add_accesses, describe, origin
from cuesta.lowering.host_to_llvm.interface import state_interface
from cuesta.lowering.host_to_llvm.object_code import begin_object
from cuesta.options import Options
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.policy.choices import Chooser, chosen_by
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.program import Program
from cuesta.runtime.schema.report import Apart, AtenCall, Kernel
from cuesta.sizes import assumed, assumptions

#: Levels at which the host function is separate from the kernels and its memory is planned.
_PLANNED = ("kernels", "tiled", "buffers", "loops", "blocks", "tt")

#: Kinds of targets on which max_autotune times programs. Not "tt": times of the numpy interpreter say nothing of a GPU.
TIMED = ("cpu", "cuda")


#: A forward graph keeps its arena between calls if the arena is at most this share of the bytes that the graph saves.
_SMALL_ARENA = 1 / 256


@dataclass
class Lowering:
    """A module on its way through the stages: `run` runs the stages, `begin_code` begins the machine code.

    Methods import what only few graphs need, because a cold compile imports three hundred modules of cuesta without it.
    """

    module: ir.Module
    options: Options
    report: GraphReport
    #: the level of the module: a stage's name, or "import" for a module fresh from the importer
    level: str = "import"
    dump: Dump | None = None
    #: describes the program for the runtime, once its memory is planned; complete once the machine code is begun
    metadata: Program = field(init=False)
    #: waits for worker processes that compile the GPU kernels, and gives each kernel's code by its name
    _kernels: Callable[[], dict[str, bytes]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.target = target_of(self.module)
        #: the stage that runs, or ran last
        self.stage = self.level
        self._original = self.module.operation.clone()  # 1 ms for 2,000 ops

    def run(self, last: str | None = None) -> None:
        """Runs the stages after the module's level, all or up to `last`.

        Raises Unsupported for an op that a level cannot express, MemoryLimitError where no memory plan is within the
        limit, and LoweringFailed where a pass fails.
        """
        with self._in_module(), self._failures():
            chooser, smaller = self._begin(), None
            for stage in stages_after(self.level, self.target):
                self.stage = stage.name
                if self.target.gpu and stage.name == "tt":
                    from cuesta.driver.late.smaller_blocks import smaller_blocks

                    smaller = smaller_blocks(self.module)
                if self.target.gpu and stage.name == "llvm":
                    from cuesta.driver.late import kernel_code

                    cache = open_cache(self.options.cache_root)
                    rows = self.metadata["kernels"]
                    self._kernels = kernel_code.start(self.module, rows, self.target, cache, smaller).finish
                pipeline = pipeline_of(stage, self.options)
                with self.report.timed(stage.name), chosen_by(chooser):
                    if self.options.memory_limit is not None and stage.name == PLANNING:
                        from cuesta.driver.memory.memory_limit import planned_within

                        limit = self.options.memory_limit
                        self.module = planned_within(self.module, pipeline, limit, self.report)
                    else:
                        pipeline.run(self.module, verify=False)
                self._finish_stage(last)
                if stage.name == last:
                    break

    def begin_code(self) -> Begun:
        """Begins the machine code of a module that has passed all stages; LLVM's threads make it.

        They work on one program at a time, because the memory of several would add up. Waiting for the code raises
        LoweringFailed where LLVM or the compiler of GPU kernels fails.
        """
        with self._in_module(), self._failures():
            words = WORDS.find(self.module.operation)
            if words is not None:
                self.metadata["words"] = [n if isinstance(n, int) else str(n) for n in words]
                WORDS.drop(self.module.operation)
            add_accesses(self.metadata, self.module)
            zeros = {text: False for zero in zeros_of(self.module) for text in (zero, f"-({zero})")}
            self.metadata["assumed"] = assumed() | zeros
            state_interface(self.module, self.metadata)
            self.stage = MACHINE_CODE
            wait_all()
            wait = begin_object(self.module, self.options.opt_level)
        return Begun(self.metadata, functools.partial(self._finish, wait))

    def _finish(self, wait: Callable[[], bytes]) -> Artefact:
        """The artefact, once its code is made."""
        with self._failures():
            with self.report.timed(MACHINE_CODE):
                objects = wait()
            if self.dump is not None:
                self.dump.write_beside("machine_code.o", objects)
            code: dict[str, bytes] = {}
            if self._kernels is not None:
                self.stage = KERNELS_CODE
                with self.report.timed(KERNELS_CODE):
                    code = self._kernels()
                self._report_resources()
        return Artefact(objects, "cuesta_main", {"program": self.metadata, "report": self.report.program()}, code)

    @contextmanager
    def _in_module(self) -> Iterator[None]:
        with self.module.context, ir.Location.unknown(), known_sizes(self.module):
            yield

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Wraps an error with the stage that was reached and the module as it was at its first level."""
        try:
            yield
        except Unsupported:
            raise
        except CompileError as error:
            with self._original.context:
                pipelines = {s.name: pipeline_of(s, self.options) for s in stages_after(self.level, self.target)}
            failure = LoweringFailed(error, self._original, pipelines, self.stage)
            if self.dump is not None:
                self.dump.finish([f"{self.report.name}: failed", str(failure.told(self.dump))])
            raise failure from error

    def _begin(self) -> Chooser | None:
        """Starts Triton's processes. Returns what measures max_autotune's candidates."""
        if self.target.gpu:
            from cuesta.driver.late import kernel_code

            kernel_code.prepare(self.target)
        if self.dump is not None:
            self.dump.write(self.level, self.module)
        if self.level in _PLANNED:
            if self.options.checked:  # the module may come from a dump made without `checked`
                Pipeline.parse("builtin.module(check-operands)").run(self.module, verify=False)
            _fill_report(self.report, self.module)
            self.metadata = _describe_program(self.module, self.report)
        if not self.options.max_autotune or self.target.kind not in TIMED:
            return None
        from cuesta.driver.autotune.measured_choices import MeasuredChoices

        return MeasuredChoices.of(self.options, self.report, lower_module, self.target)

    def _finish_stage(self, last: str | None) -> None:
        """Describes the program once its memory is planned, verifies the module, and shows it to logs and dump."""
        if self.stage in ("kernels", "blocks", "tt"):  # the second may add kernels, the last joins some
            _fill_report(self.report, self.module)
        if self.stage in (last, "tt" if self.target.gpu else PLANNING) and self.stage in _PLANNED:
            self.metadata = _describe_program(self.module, self.report)
        if self.options.verify:
            with self.report.timed("verify"):
                dialects.verify(self.module, f"stage {self.stage}")
        tell_stage(self.stage, functools.partial(as_text, self.module.operation))
        if self.dump is not None:
            self.dump.write(self.stage, self.module)
            if self.stage == "kernels":
                from cuesta.driver.dump.stages import write_kernels_and_picture

                picture = self.options.trace_graph_diagram
                write_kernels_and_picture(self.dump, self.module, self.report, picture=picture)

    def _report_resources(self) -> None:
        """Adds the resources that each kernel needs on a GPU to the report."""
        by_name = {row["name"]: row for row in self.metadata["kernels"]}
        for kernel in self.report.kernels:
            row = by_name[kernel["name"]]
            kernel |= {
                "grid": row["grid"],
                "warps": row["warps"],
                "shared": row["shared"],
                "registers": row["registers"],
                "spills": row["spills"],
                "halvings": row["halvings"],
            }


def _describe_program(module: ir.Module, report: GraphReport) -> Program:
    """Describes the planned host function, with which the report is filled in, for the runtime."""
    return {**describe(module), "keeps_arena": report.keeps_arena}


def _fill_report(report: GraphReport, module: ir.Module) -> None:
    """Fills in the kernels, calls and memory of the report from the planned host function."""
    hosts = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    if len(hosts) != 1 or not MEMORY.is_on(hosts[0]):
        raise CompileError(
            f"{len(hosts)} functions beside the kernels; one, with plan-memory's cuesta.memory, is valid"
        )
    (function,) = hosts
    functions, known = kernel_functions(module), {kernel["name"]: kernel["bytes"] for kernel in report.kernels}
    kernels: dict[str, Kernel] = {}
    calls: dict[tuple[str, str], AtenCall] = {}
    for view in function.regions[0].blocks[0].operations:
        op = view.operation
        if host.Launch.matches(op):
            name, ops = host.Launch.kernel.of(op), host.Launch.ops.find(op) or []
            if name not in kernels:
                parts = host.Launch.members.find(op) or [name]
                is_known = name not in functions and known.keys() >= {*parts}
                size = sum(known[n] for n in parts) if is_known else launch_bytes(op, functions.get(name))
                kernels[name] = {"name": name, "ops": ops, "uses": 0, "bytes": size}
            kernels[name]["uses"] += 1
        elif host.Call.matches(op):
            overload, reason, route = host.Call.overload.of(op), host.Call.reason.of(op), host.Call.route.of(op)
            new: AtenCall = {"op": overload, "reason": reason, "route": route, "count": 0, **origin(op)}
            calls.setdefault((overload, reason), new)["count"] += 1
    report.kernels, report.aten_calls = list(kernels.values()), list(calls.values())
    report.launches = sum(k["uses"] for k in report.kernels)
    memory = MEMORY.of(function)
    report.arena_bytes, report.peak_bytes, report.kept_bytes = memory["arena"], memory["peak"], memory["kept"]
    # An arena that is kept takes memory on top of all saved tensors between forward and backward, and on top of other
    # programs' arenas between calls.
    is_cheap = report.name != "forward" or report.arena_bytes <= _SMALL_ARENA * report.kept_bytes
    report.keeps_arena = is_cheap and report.memory_limit is None
    report.apart = [_apart(row) for row in REMARKS.find(function) or ()]


def _apart(remark: ir.DictAttr) -> Apart:
    return {
        "bytes": remark["bytes"].value,
        "consumer": remark["consumer"].value,
        "producer": remark["producer"].value,
        "reason": remark["reason"].value,
    }


def lower_module(module: ir.Module, options: Options, report: GraphReport, level: str = "import") -> Artefact:
    """Lowers a module from `level` to native code. Raises what `Lowering` does."""
    lowering = Lowering(module, options, report, level)
    lowering.run()
    return lowering.begin_code().finish()


def compile_module(module: ir.Module, *, from_stage: str = "import", options: Options | None = None) -> Executable:
    """Compiles a module at any level above machine code into a program that is called with the module's tensors.

    The target is the module's own, or the options' if the module names none.
    """
    options = options or Options.from_torch()
    if options.target is not None and not target_of(module).gpu:
        with module.context:
            mark_module(module, options.target, torch.device(options.target.device_type))
    try:
        with assumptions():
            return load(lower_module(module, options, GraphReport("module"), from_stage))
    except LoweringFailed as failure:
        told = failure.told()
        raise told from told.__cause__
