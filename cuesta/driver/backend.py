"""Implements the backend that torch.compile calls: AOTAutograd around cuesta's compiler of ATen graphs."""

from __future__ import annotations

import collections
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cuesta.collector import held_back, hold_back_in_dynamo

with held_back():  # half a thousand modules, most of them torch's
    from cuesta.driver.autotune import machine_trial
    from cuesta.driver.cache.output_code import Keeping, keeping, kept_by_torch, remember, serialisable
    from cuesta.driver.calling import Boxed, Run, bind, bind_sized
    from cuesta.driver.dump.logs import tell_report
    from cuesta.driver.dump.profiling import profiled
    from cuesta.driver.made_program import MadeProgram
    from cuesta.driver.make_program import make_program
    from cuesta.driver.memory.step_memory import StepMemory, at_once, refuse_unplanned
    from cuesta.driver.op_by_op import op_by_op
    from cuesta.driver.own_errors import is_strict, told_of
    from cuesta.driver.pieces import in_pieces
    from cuesta.driver.shared_arguments import guard_shared_memory
    from cuesta.driver.specialise import is_symbolic, specialised
    from cuesta.driver.tiers.tiered import FirstTier, begin_program
    from cuesta.errors import ArtefactError, CompileError, DeviceError, OptionError, Unsupported
    from cuesta.frontend.attention.keep_whole import keep_attention_whole
    from cuesta.frontend.capture.aliased_outputs import note_aliased_outputs
    from cuesta.frontend.capture.aot import around
    from cuesta.frontend.capture.donation import donated_arguments
    from cuesta.frontend.capture.effects import unwrap_effects
    from cuesta.frontend.capture.random_numbers import take_random_numbers_as_passed
    from cuesta.frontend.capture.static_inputs import static_arguments
    from cuesta.frontend.capture.streams import unwrap_waits, uses_streams
    from cuesta.frontend.convention import Convention
    from cuesta.frontend.devices import takes_fake_tensors
    from cuesta.frontend.fx_passes.bitwise import decompositions_of
    from cuesta.frontend.fx_passes.byte_images import keep_byte_images_whole
    from cuesta.frontend.python_steps import python_steps, takes_nested_size
    from cuesta.frontend.undefined_results import refuse_saved
    from cuesta.options import Options
    from cuesta.reports import compile_report
    from cuesta.reports.compile_report import GraphReport, SetsOfSizes
    from cuesta.runtime.cuda.cuda_graphs import RecordedProgram
    from cuesta.runtime.cuda.cuda_recorder import recorder_of
    from cuesta.runtime.executable import Executable

log = logging.getLogger("cuesta")


@held_back()
def compile_fx_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; `torch.compile(f, backend="cuesta")` calls it.

    Takes torch.compile's `mode` and `options`. Raises OptionError where they are wrong; a graph that
    cannot be compiled runs op by op, which the report and a warning say.
    """
    options = Options.from_torch(kwargs.pop("mode", None), kwargs.pop("options", None))
    if kwargs:
        raise OptionError(f"backend cuesta takes mode and options, not {', '.join(sorted(kwargs))}")

    if torch._dynamo.config.repro_after == "dynamo":
        # Torch's minifier script runs reduced graphs while Dynamo compiles. There a second backward graph that is
        # lowered lazily raises an error in torch. The script is written with the config that is set here.
        torch._functorch.config.force_non_lazy_backward_lowering = True
    hold_back_in_dynamo()  # again, because torch._dynamo.reset forgets the callbacks
    fake = takes_fake_tensors(gm)
    keep = Keeping.NOTHING if fake else keeping(gm, example_inputs, options)
    memory = StepMemory(options)

    def compiler(kind: str) -> Callable[..., Any]:
        if fake:
            why = "its arguments are fake tensors"
            return lambda graph, _: _run_in_python(graph, _Request(kind, options), why, why)
        compile = memory.compiler(kind, functools.partial(compile_aten_graph, keep=keep))
        return compile if keep is Keeping.NOTHING else serialisable(compile)

    keep_byte_images_whole(gm)
    if not options.bitwise_eager:
        keep_attention_whole(gm, options.target)
    if not options.tiered:  # with `tiered` the other process measures
        machine_trial.begin(gm, options)  # independent of what follows: LLVM works meanwhile
    backend = around(compiler, decompositions_of(options), memory.partition)
    with kept_by_torch(options, keep), at_once(options):
        compiled = backend(gm, take_random_numbers_as_passed(gm, example_inputs))
    # `_boxed_call` marks a callable that takes a list. AOTAutograd copies the mark from our compiled callable to a
    # function that takes separate arguments. Torch's minifier and its scripts trust the mark, call that function with a
    # list, and take the resulting error for right results.
    vars(compiled).pop("_boxed_call", None)
    return compiled if fake or keep is not Keeping.NOTHING else guard_shared_memory(gm, compiled, example_inputs)


compile_fx_graph.reset = compile_report.clear  # type: ignore[attr-defined]
hold_back_in_dynamo()  # torch.compile loads this module before Dynamo traces


@dataclass(frozen=True)
class _Request:
    """How to compile a graph."""

    kind: str
    options: Options
    #: positions of the donated arguments, whose memory nobody needs after a call, and of the static ones, whose memory
    #: stays at one address
    donated: Sequence[int] = ()
    static: Sequence[int] = ()
    keep: Keeping = Keeping.NOTHING
    #: the sets of sizes of the symbolic graph that this graph specialises; None for a graph that Dynamo made for one
    #: set
    sets: SetsOfSizes | None = None
    #: the outcome of `freezing`; None if the option is off
    frozen: str | None = None


@held_back()  # a backward graph is compiled when it first runs
def compile_aten_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    kind: str,
    options: Options,
    keep: Keeping = Keeping.NOTHING,
) -> Boxed:
    """Compiles a functional ATen graph into a boxed callable."""
    if kind != "backward":
        note_aliased_outputs(gm)
    if kind == "forward":
        refuse_saved(gm)
    donated = donated_arguments(gm) if kind == "backward" else []
    request = _Request(kind, options, donated, static_arguments(gm, kind), keep)
    if torch._dynamo.config.repro_after != "aot":
        if not options.freezing:
            return _compile_graph(gm, request)

        from cuesta.driver.freezing.freeze import freeze_if_possible

        frozen, text = freeze_if_possible(gm, kind, options, request.static, keep is not Keeping.NOTHING)
        boxed = _compile_graph(gm, replace(request, frozen=text))
        return boxed if frozen is None else frozen.bind(boxed)

    from cuesta.driver.dump.minifier import watched

    return watched(gm, example_inputs, kind, options, lambda: _compile_graph(gm, request))


def _compile_graph(gm: torch.fx.GraphModule, request: _Request) -> Boxed:
    kind, options = request.kind, request.options
    unwrap_waits(gm)
    unwrap_effects(gm)
    steps = python_steps(gm)
    if steps or takes_nested_size(gm) or uses_streams(gm):
        refuse_unplanned(request.kind, options, "it is cut where Python is called or the stream changes")
        if steps:
            compile_report.add(report_of_steps(steps, kind))
        return in_pieces(gm, steps, lambda piece, name: _compile_graph(piece, _Request(f"{kind}, {name}", options)))
    if not is_symbolic(gm):
        return _compile_static(gm, request)

    def each(reason: str) -> Boxed:
        sets = SetsOfSizes(reason)
        numbers = replace(request, keep=Keeping.NOTHING, sets=sets)
        return specialised(gm, sets, lambda traced: _compile_static(traced, numbers))

    if options.memory_limit is not None:
        return each("memory_limit holds for each set of sizes: each has a plan of its own")
    return _compile_sized(gm, request, each)


def _compile_sized(gm: torch.fx.GraphModule, request: _Request, each: Callable[[str], Boxed]) -> Boxed:
    """Compiles one program with symbolic sizes.

    `each(reason)` compiles one program for each set of sizes instead. It takes the sets that the symbolic program does
    not admit, and all sets if a level cannot express the symbolic graph.
    """
    kind, options = request.kind, request.options
    report = GraphReport(kind, frozen=request.frozen)

    def ready(made: MadeProgram) -> Boxed:
        steps = made.executable.metadata["steps"]
        others = each("the program for all sizes is not right for these")

        def around(program: Executable) -> Run:
            recorded = _recorded(program, made.convention, options, report, request.static)
            return profiled(recorded, report, steps)

        return bind_sized(made.executable, made.convention, gm, others, around)

    try:
        made = _made(gm, request, report)
    except (Unsupported, DeviceError) as problem:
        log.info("the %s graph is compiled for each set of sizes: %s", kind, problem)
        return each(str(problem))
    except (CompileError, ArtefactError) as failure:
        if is_strict():
            raise
        log.warning("the %s graph is compiled for each set of sizes: %s", kind, told_of(failure))
        return each(str(failure))
    compile_report.add(report)
    tell_report(report)
    return ready(made) if isinstance(made, MadeProgram) else made.start(ready)


def _made(gm: torch.fx.GraphModule, request: _Request, report: GraphReport) -> MadeProgram | FirstTier:
    """The program of a graph, or with `tiered` the first tier, which runs until the program exists. Raises what
    make_program does."""
    if not request.options.tiered:
        return make_program(gm, request.kind, request.options, report, request.donated)
    whole = request.keep is Keeping.CODE
    return begin_program(gm, request.kind, request.options, report, request.donated, whole)


def report_of_steps(steps: dict[torch.fx.Node, str], kind: str) -> GraphReport:
    """The report of the steps at which a graph is cut."""
    counts = collections.Counter((str(node.target), reason) for node, reason in steps.items())
    calls = [
        {"op": op, "reason": f"{reason}; it runs between programs", "route": "Python", "count": count, "where": ""}
        for (op, reason), count in counts.items()
    ]
    return GraphReport(f"{kind}, in pieces", aten_calls=calls)


def _compile_static(gm: torch.fx.GraphModule, request: _Request) -> Boxed:
    kind, options = request.kind, request.options
    report = GraphReport(kind, sets=request.sets, frozen=request.frozen)

    def ready(made: MadeProgram) -> Boxed:
        run = _recorded(made.executable, made.convention, options, report, request.static)
        return bind(profiled(run, report, made.executable.metadata["steps"]), made.convention, gm)

    try:
        made = _made(gm, request, report)
    except (Unsupported, DeviceError) as problem:  # torch may run on a GPU on which our kernels do not load
        return _run_in_python(gm, request, str(problem), str(problem))
    except (CompileError, ArtefactError) as failure:
        if is_strict():
            raise
        return _run_in_python(gm, request, str(failure), told_of(failure))
    compile_report.add(report)
    tell_report(report)
    if not isinstance(made, MadeProgram):
        return made.start(ready)
    boxed = ready(made)
    if request.keep is not Keeping.NOTHING:
        remember(boxed, kind, made, gm, options, request.keep)
    return boxed


def _recorded(
    program: Executable, convention: Convention, options: Options, report: GraphReport, static: Sequence[int]
) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Wraps the program to be recorded as a CUDA graph, if the options ask for that and the program allows it."""
    device = torch.device(program.metadata["device"])
    if not options.cudagraphs or device.type != "cuda":
        return program
    if program.metadata["elsewhere"]:
        report.cuda_graph = f"not recorded: it has tensors on {', '.join(program.metadata['elsewhere'])}"
        return program

    def tell(outcome: str) -> None:
        report.cuda_graph = outcome

    if options.memory_limit is not None:
        report.cuda_graph = "not recorded: its copies of arguments would come on top of memory_limit"
        return program
    tell("its second call is to be recorded")
    chosen = convention.tensor_arguments
    # The graph module's own tensors come after the call's.
    count = len(chosen) + len(convention.constants)
    stay = [n for n in range(count) if n >= len(chosen) or chosen[n] in static]
    return RecordedProgram(program, program.metadata, stay, recorder_of(device), program.fits, tell)


def _run_in_python(gm: torch.fx.GraphModule, request: _Request, reason: str, warning: str) -> Boxed:
    """Runs the graph op by op in Python; the report gets `reason`, the log gets `warning`."""
    refuse_unplanned(request.kind, request.options, f"it runs op by op ({reason})")
    compile_report.add(GraphReport(request.kind, fallback=reason, sets=request.sets))
    log.warning("the %s graph runs op by op: %s", request.kind, warning)
    return op_by_op(gm)
