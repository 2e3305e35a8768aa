"""Lowers a graph through every stage to an artefact, and loads an artefact as a callable program."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch

import cuesta.dialects as dialects
import cuesta.passes
from cuesta._mlir import ir
from cuesta.cache import open_cache
from cuesta.dialects.cuesta.dialect import numbers
from cuesta.dialects.known_sizes import known_sizes, zeros_of
from cuesta.dialects.module_target import mark_module, target_of
from cuesta.driver.autotune.kernel_traffic import kernel_functions, launch_bytes
from cuesta.driver.dump.logs import tell_stage
from cuesta.driver.dump.reproducer import LoweringFailed, as_text
from cuesta.driver.dump.stages import Dump
from cuesta.driver.late.late_code import Begun, settle
from cuesta.driver.loading import load
from cuesta.errors import CompileError, PipelineError, Unsupported
from cuesta.lowering.host_to_llvm import WORDS
from cuesta.lowering.host_to_llvm.describe import add_accesses, describe, origin
from cuesta.lowering.host_to_llvm.interface import state_interface
from cuesta.lowering.host_to_llvm.object_code import begin_object, compile_to_object
from cuesta.options import Options
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.pipelines import CHECKS, EPILOGUES, Stage, stages_for
from cuesta.policy.choices import chosen_by
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.sizes import assumed, assumptions
from cuesta.targets import CPU, Target

log = logging.getLogger("cuesta")

#: Levels at which the host function is separate from the kernels and its memory is planned.
_PLANNED = ("kernels", "tiled", "buffers", "loops", "blocks", "tt")

#: The stage that plans memory.
PLANNING = "kernels"

#: What follows all stages: LLVM makes machine code, and Triton compiles the kernels of a GPU.
MACHINE_CODE, KERNELS_CODE = "machine code", "kernels' code"

#: Kinds of targets on which max_autotune times programs. Not "tt": times of the numpy interpreter say nothing of a GPU.
TIMED = ("cpu", "cuda")

#: Makes a relocatable object from a flat module in the LLVM dialect, at an optimisation level.
MachineCode: TypeAlias = Callable[[ir.Module, int], bytes]

#: A forward graph keeps its arena between calls if the arena is at most this share of the bytes that the graph saves.
_SMALL_ARENA = 1 / 256


@dataclass
class Timer:
    """Seconds by stage, written into a report."""

    times: dict[str, float]
    started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start, measuring = time.perf_counter(), self.times.get("measuring", 0.0)
        try:
            yield
        finally:
            within = self.times.get("measuring", 0.0) - measuring  # "measuring" has its own entry
            self.times[name] = self.times.get(name, 0.0) + time.perf_counter() - start - within


def stages_after(level: str, target: Target = CPU) -> list[Stage]:
    """The stages after `level`, which is a stage's name, or "import" for a module fresh from the importer.

    Raises PipelineError for an unknown level.
    """
    stages = stages_for(target)
    names = ["import", *stages]
    if level not in names:
        raise PipelineError(f"no level named {level!r}; the levels are {', '.join(names)}")
    return list(stages.values())[names.index(level) :]


def pipeline_of(stage: Stage, options: Options) -> Pipeline:
    """The pass pipeline of a stage under the options."""
    pipeline = Pipeline.parse(stage.pipeline)
    if not options.epilogue_fusion:
        pipeline = pipeline.without(EPILOGUES)
    if options.checked and stage.name in CHECKS:
        pipeline = pipeline.with_pass(*CHECKS[stage.name])
    fusing = {"fuse": options.fusion, "epilogues": options.epilogue_fusion}
    asked = {name: given for name in ("gemm", "attention") if (given := getattr(options, name)) != "auto"}
    pipeline = pipeline.with_options("form-kernels", **{name: False for name, wanted in fusing.items() if not wanted})
    pipeline = pipeline.with_options("plan-memory", **({"guarded": True} if options.checked else {}))
    return pipeline.with_options("call-libraries", **asked)


def run_stage(stage: Stage, module: ir.Module, options: Options, report: GraphReport) -> ir.Module:
    """Runs a stage and returns the module after it: the same module, or another if this stage plans memory within a
    limit.

    Raises MemoryLimitError where no plan is within the limit.
    """
    pipeline = pipeline_of(stage, options)
    if options.memory_limit is not None and stage.name == PLANNING:
        from cuesta.driver.memory.memory_limit import planned_within

        return planned_within(module, pipeline, options.memory_limit, report)
    pipeline.run(module, verify=False)
    return module


def begin_lowering(module: ir.Module, options: Options, report: GraphReport) -> Begun:
    """Lowers a module fresh from the importer, and returns while LLVM's threads still make its machine code.

    LLVM's threads work on one program at a time, because the memory of several would add up. Raises what `lower_module`
    does.
    """
    begun: list[Callable[[], bytes]] = []
    original = module.operation.clone()

    def begin(flat: ir.Module, opt_level: int) -> bytes:
        settle()
        begun.append(begin_object(flat, opt_level))
        return b""

    artefact = lower_module(module, options, report, machine_code=begin)

    def finish() -> Artefact:
        try:
            return replace(artefact, objects=begun[0]())
        except CompileError as error:
            raise _failure(error, original, options, "import", MACHINE_CODE) from error

    return Begun(artefact.metadata["program"], finish)


def lower_module(
    module: ir.Module,
    options: Options,
    report: GraphReport,
    level: str = "import",
    dump: Dump | None = None,
    machine_code: MachineCode | None = None,
) -> Artefact:
    """Lowers a module from `level` to native code, which `machine_code` makes (by default `compile_to_object`).

    Raises Unsupported for an op that a level cannot express, and LoweringFailed where a pass or LLVM fails.
    """
    if target_of(module).gpu or options.checked:
        cuesta.passes.load_all()
    else:
        cuesta.passes.load_for_cpu()
    with module.context, ir.Location.unknown(), known_sizes(module):
        original = module.operation.clone()  # 1 ms for 2,000 ops
        reached: list[str] = [level]
        try:
            return _lower(module, options, report, level, dump, machine_code or compile_to_object, reached)
        except Unsupported:
            raise
        except CompileError as error:
            failure = _failure(error, original, options, level, reached[-1])
            if dump is not None:
                dump.finish([f"{report.name}: failed", str(failure.told(dump))])
            raise failure from error


def _failure(error: CompileError, original: ir.Operation, options: Options, level: str, reached: str) -> LoweringFailed:
    """Wraps an error with the stage that was reached and the module as it was at `level`."""
    with original.context:
        stages = stages_after(level, target_of(original))
        return LoweringFailed(error, original, {s.name: pipeline_of(s, options) for s in stages}, reached)


def _lower(
    module: ir.Module,
    options: Options,
    report: GraphReport,
    level: str,
    dump: Dump | None,
    machine_code: MachineCode,
    reached: list[str],
) -> Artefact:
    """Appends the name of each step to `reached` as the step begins."""
    timer = Timer(report.times)
    target = target_of(module)
    making = smaller = chooser = None
    metadata: dict[str, Any] = {}
    # Modules that few graphs need are imported only for those graphs: a cold compile imports three hundred modules of
    # ours as it is.
    if target.gpu:
        from cuesta.driver.late import kernel_code
        from cuesta.driver.late.smaller_blocks import smaller_blocks

        kernel_code.prepare(target)
    if options.max_autotune and target.kind in TIMED:
        from cuesta.driver.autotune.measured_choices import MeasuredChoices

        chooser = MeasuredChoices.of(options, report, lower_module, target, _begin_kernels)
    if dump is not None:
        dump.write(level, module)
    if level in _PLANNED:
        if options.checked:  # the module may come from a dump made without `checked`
            Pipeline.parse("builtin.module(check-operands)").run(module, verify=False)
        metadata = describe_program(module, report)
    for stage in stages_after(level, target):
        reached.append(stage.name)
        if stage.name == "llvm" and target.gpu:
            cache = open_cache(options.cache_root)
            making = kernel_code.start(module, metadata["kernels"], target, cache, smaller)
        if stage.name == "tt":
            smaller = smaller_blocks(module)
        with timer.stage(stage.name), chosen_by(chooser):
            module = run_stage(stage, module, options, report)
        if stage.name in ("kernels", "blocks"):  # both stages may add kernels
            metadata = describe_program(module, report)
        if options.verify:
            with timer.stage("verify"):
                dialects.verify(module, f"stage {stage.name}")
        tell_stage(stage.name, functools.partial(as_text, module.operation))
        if dump is not None:
            dump.write(stage.name, module)
            if stage.name == "kernels":
                from cuesta.driver.dump.dump_kernels import write_kernels_and_picture

                write_kernels_and_picture(dump, module, report, picture=options.trace_graph_diagram)
    if WORDS in module.operation.attributes:
        metadata["words"] = [n if isinstance(n, int) else str(n) for n in numbers(module.operation.attributes[WORDS])]
        del module.operation.attributes[WORDS]
    add_accesses(metadata, module)
    metadata["assumed"] = assumed() | {text: False for zero in zeros_of(module) for text in (zero, f"-({zero})")}
    state_interface(module, metadata)
    reached.append(MACHINE_CODE)
    with timer.stage(MACHINE_CODE):
        objects = machine_code(module, options.opt_level)
    if dump is not None:
        dump.write_beside("machine_code.o", objects)
    code: dict[str, bytes] = {}
    if making is not None:
        reached.append(KERNELS_CODE)
        with timer.stage(KERNELS_CODE):
            code = making.finish()
        _add_resources(report, metadata["kernels"])
    return Artefact(objects, "cuesta_main", {"program": metadata, "report": report.program()}, code)


def _begin_kernels(module: ir.Module, level: str, options: Options) -> None:
    """Starts compiling the kernels of a module for a GPU; a later lowering of the same module finds them under way."""
    from cuesta.lowering.tt_to_binary.making import start_kernels

    target = target_of(module)
    for stage in stages_after(level, target)[:-1]:
        pipeline_of(stage, options).run(module, verify=False)
    start_kernels(module, target, open_cache(options.cache_root))


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


def _add_resources(report: GraphReport, rows: list[dict[str, Any]]) -> None:
    """Adds the resources that each kernel needs on a GPU to the report."""
    by_name = {row["name"]: row for row in rows}
    for kernel in report.kernels:
        row = by_name[kernel["name"]]
        kernel |= {key: row[key] for key in ("grid", "warps", "shared", "registers", "spills", "halvings")}


def describe_program(module: ir.Module, report: GraphReport) -> dict[str, Any]:
    """Describes the planned host function for the runtime, and fills in the kernels, calls and memory of the report."""
    hosts = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(hosts) != 1 or "cuesta.memory" not in hosts[0].attributes:
        raise CompileError(f"{len(hosts)} functions beside the kernels; one with the plan of plan-memory was due")
    (host,) = hosts
    functions = kernel_functions(module)
    kernels: dict[str, dict[str, Any]] = {}
    calls: dict[tuple[str, str], dict[str, Any]] = {}
    for view in host.regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "host.launch":
            name = list(op.attributes["kernel"].value)[-1]
            ops = [o.value for o in op.attributes["ops"]] if "ops" in op.attributes else []
            if name not in kernels:
                size = launch_bytes(op, functions.get(name))
                kernels[name] = {"name": name, "ops": ops, "uses": 0, "bytes": size}
            kernels[name]["uses"] += 1
        elif op.name == "host.aten":
            overload, reason = op.attributes["overload"].value, op.attributes["reason"].value
            route = op.attributes["route"].value
            new = {"op": overload, "reason": reason, "route": route, "count": 0, **origin(op)}
            calls.setdefault((overload, reason), new)["count"] += 1
    report.kernels, report.aten_calls = list(kernels.values()), list(calls.values())
    report.launches = sum(k["uses"] for k in report.kernels)
    memory = {a.name: a.attr.value for a in host.attributes["cuesta.memory"]}
    report.arena_bytes, report.peak_bytes, report.kept_bytes = memory["arena"], memory["peak"], memory["kept"]
    # An arena that is kept takes memory on top of all saved tensors between forward and backward, and on top of other
    # programs' arenas between calls.
    is_cheap = report.name != "forward" or report.arena_bytes <= _SMALL_ARENA * report.kept_bytes
    report.keeps_arena = is_cheap and report.memory_limit is None
    if "cuesta.remarks" in host.attributes:
        report.apart = [{a.name: a.attr.value for a in row} for row in host.attributes["cuesta.remarks"]]
    return describe(module) | {"keeps_arena": report.keeps_arena}
