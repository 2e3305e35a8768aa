"""Compiles an ATen graph into a callable: one program, a program for each set of sizes, or pieces between Python
steps."""

from __future__ import annotations

import collections
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.collector import held_back
from cuesta.driver.autotune.machine_trial import decide_kinds, recall_kinds
from cuesta.driver.background.ahead import Ahead
from cuesta.driver.background.tiered import FirstTier, begin_program
from cuesta.driver.cache.output_code import Keeping, remember
from cuesta.driver.calling import Boxed, Run, bind, bind_sized
from cuesta.driver.dump.logs import profiled, tell_report, tell_stage
from cuesta.driver.loading import MadeProgram
from cuesta.driver.make_program import Wanted, compile_program, look_up
from cuesta.driver.memory.step_memory import StepMemory, refuse_unplanned
from cuesta.driver.op_by_op import op_by_op
from cuesta.driver.own_errors import is_strict, told_of
from cuesta.driver.pieces import in_pieces, steps_to_cut_at
from cuesta.driver.specialise import is_symbolic, specialised
from cuesta.driver.uploads import bind as bind_uploads
from cuesta.driver.uploads import take_uploads
from cuesta.errors import ArtefactError, CompileError, CuestaError, DeviceError, Unsupported
from cuesta.frontend.capture.aliased_outputs import note_aliased_outputs
from cuesta.frontend.capture.donation import donated_arguments, saved_outputs
from cuesta.frontend.capture.static_inputs import static_arguments
from cuesta.frontend.convention import Convention
from cuesta.frontend.fx_pipelines import ATEN
from cuesta.frontend.undefined_results import refuse_saved
from cuesta.options import Options
from cuesta.reports import compile_report
from cuesta.reports.compile_report import GraphReport, SetsOfSizes
from cuesta.runtime.cuda.cuda_graphs import RecordedProgram
from cuesta.runtime.cuda.cuda_recorder import recorder_of
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.report import AtenCall
from cuesta.torch_private.configs import repro_after

log = logging.getLogger("cuesta")


@dataclass(frozen=True)
class Request:
    """How to compile a graph."""

    kind: str
    options: Options
    #: positions of the donated arguments, whose memory nobody needs after a call, and of the static ones, whose memory
    #: stays at one address
    donated: Sequence[int] = ()
    static: Sequence[int] = ()
    #: positions of the outputs that autograd saves for the backward graph: those that only autograd gets, and arguments
    saved: Sequence[int] = ()
    saved_arguments: Sequence[int] = ()
    keep: Keeping = Keeping.NOTHING
    #: of a training step's two graphs: lets another process compile the backward graph
    ahead: Ahead | None = None
    #: the sets of sizes of the symbolic graph that this graph specialises; None for a graph that Dynamo made for one
    #: set
    sets: SetsOfSizes | None = None
    #: the outcome of `freezing`; None if the option is off
    frozen: str | None = None


@held_back()  # a backward graph is compiled when it first runs
def compile_aten_graph(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    kind: str,
    memory: StepMemory,
    keep: Keeping = Keeping.NOTHING,
    ahead: Ahead | None = None,
) -> Boxed:
    """Compiles a functional ATen graph into a boxed callable, under the options that `memory` has for this kind."""
    if kind != "backward":
        note_aliased_outputs(gm)
    if kind == "forward":
        refuse_saved(gm)
    donated = donated_arguments(gm) if kind == "backward" else []
    with memory.share(kind) as options:
        is_watched = repro_after() == "aot"
        # The minifier, and what torch keeps of a program, call it without uploads.
        uploads = take_uploads(gm) if _has_uploads(options, keep) and not is_watched else None
        saved, arguments = saved_outputs(gm) if kind == "forward" else ([], [])
        request = Request(kind, options, donated, static_arguments(gm, kind), saved, arguments, keep, ahead)
        if is_watched:
            from cuesta.driver.dump.minifier import watched

            return watched(gm, example_inputs, kind, options, lambda: compile_graph(gm, request))
        if options.freezing:
            from cuesta.driver.freezing.freeze import freeze_if_possible
            from cuesta.driver.freezing.frozen_arguments import bind as bind_frozen

            frozen, text = freeze_if_possible(gm, kind, options, request.static, keep is not Keeping.NOTHING)
            boxed = compile_graph(gm, replace(request, frozen=text))
            boxed = bind_frozen(frozen, boxed) if frozen else boxed
        else:
            boxed = compile_graph(gm, request)
        return boxed if uploads is None else bind_uploads(uploads, boxed)


def compile_graph(gm: GraphModule, request: Request) -> Boxed:
    """Compiles a graph as one program where that is possible; else in pieces, for each set of sizes, or op by op."""
    kind, options = request.kind, request.options
    ATEN.run(gm, options, tell_stage)
    steps = steps_to_cut_at(gm)
    if steps is not None:
        return _in_pieces(gm, steps, request)
    if is_symbolic(gm) and options.memory_limit is not None:
        return _for_each_set(gm, request, "with memory_limit, each set of sizes needs a memory plan of its own")
    report = GraphReport(kind, sets=request.sets, frozen=request.frozen)
    try:
        decide = recall_kinds if options.tiered else decide_kinds
        found = look_up(gm, kind, options, report, request.donated, decide)
        if isinstance(found, Wanted):
            whole = request.keep is Keeping.CODE
            if options.tiered:
                made = begin_program(found, report, whole)
            else:
                made = _made_elsewhere(found, request, report) or compile_program(found, report)
        else:
            made = found
            if options.tiered:
                report.tier = "full: the program was in the cache"
    except (Unsupported, DeviceError) as problem:  # torch may run on a GPU on which our kernels do not load
        return _without_program(gm, request, problem)
    except (CompileError, ArtefactError) as failure:
        if is_strict():
            raise
        return _without_program(gm, request, failure)
    compile_report.add(report)
    tell_report(report)
    bound = functools.partial(_bound, gm=gm, request=request, report=report)
    if isinstance(made, FirstTier):
        return made.start(bound)
    boxed = bound(made)
    if request.keep is not Keeping.NOTHING and not is_symbolic(gm):
        remember(boxed, kind, made, gm, options, request.keep)
    return boxed


def _has_uploads(options: Options, keep: Keeping) -> bool:
    """Whether what a graph takes from the CPU is computed before its program runs."""
    return options.cudagraphs and keep is Keeping.NOTHING


def _made_elsewhere(wanted: Wanted, request: Request, report: GraphReport) -> MadeProgram | None:
    """The program of a backward graph, if another process has made it, else None. When the forward graph is compiled,
    hands the backward graph to that process."""
    if request.ahead is None:
        return None
    if request.kind == "forward":
        request.ahead.begin(_has_uploads(request.options, request.keep))
    return request.ahead.take(wanted, report) if request.kind == "backward" else None


def _in_pieces(gm: GraphModule, steps: dict[Node, str], request: Request) -> Boxed:
    kind, options = request.kind, request.options
    refuse_unplanned(kind, options, "the graph is cut into pieces at steps in Python or at changes of the stream")
    if steps:
        compile_report.add(report_of_steps(steps, kind))
    return in_pieces(gm, steps, lambda piece, name: compile_graph(piece, Request(f"{kind}, {name}", options)))


def _for_each_set(gm: GraphModule, request: Request, reason: str) -> Boxed:
    """One program for each set of sizes of a graph with symbolic sizes."""
    sets = SetsOfSizes(reason)
    numbers = replace(request, keep=Keeping.NOTHING, sets=sets)
    return specialised(gm, sets, lambda traced: compile_graph(traced, numbers))


def _without_program(gm: GraphModule, request: Request, problem: CuestaError) -> Boxed:
    """Runs a graph for which no program was made: for each set of sizes if they are symbolic, else op by op."""
    expected = isinstance(problem, (Unsupported, DeviceError))
    told = str(problem) if expected else told_of(problem)
    if not is_symbolic(gm):
        return run_in_python(gm, request, str(problem), told)
    level = logging.INFO if expected else logging.WARNING
    log.log(level, "the %s graph is compiled for each set of sizes: %s", request.kind, told)
    return _for_each_set(gm, request, str(problem))


def _bound(made: MadeProgram, gm: GraphModule, request: Request, report: GraphReport) -> Boxed:
    """The boxed callable of a program. For a set of sizes that a symbolic program does not admit, it compiles another
    program, for that set alone."""
    program, convention = made.executable, made.convention
    recorded = _is_recorded(program, request, report)
    passed: list[int] = []
    if recorded:
        metadata = program.metadata
        in_place = {*_static_tensors(convention, request), *metadata["mutates"]}
        convention, passed = convention.with_results(request.saved_arguments, len(metadata["results"]), in_place)

    def run(sized: Executable) -> Run:
        called = _recorded(sized, convention, request, report, passed) if recorded else sized
        return profiled(called, report, program.metadata["steps"])

    if not is_symbolic(gm):
        return bind(run(program), convention, gm)
    others = _for_each_set(gm, request, "the program for all sizes does not admit these sizes")
    return bind_sized(program, convention, gm, others, run)


def _is_recorded(program: Executable, request: Request, report: GraphReport) -> bool:
    """Whether a program is to be recorded at its second call. The report says so, or why not."""
    options, metadata = request.options, program.metadata
    if not options.cudagraphs or torch.device(metadata["device"]).type != "cuda":
        return False
    if metadata["elsewhere"]:
        report.cuda_graph = f"not recorded: the program has tensors on {', '.join(metadata['elsewhere'])}"
        return False
    if options.memory_limit is not None:
        report.cuda_graph = "not recorded: memory_limit does not allow for the copies of arguments"
        return False
    report.cuda_graph = "will be recorded at the second call"
    return True


def _static_tensors(convention: Convention, request: Request) -> list[int]:
    """The numbers of a program's tensors that stay where they are: static arguments, and those of the graph module,
    which come after the call's."""
    chosen = convention.tensor_arguments
    arguments = [number for number, position in enumerate(chosen) if position in request.static]
    return [*arguments, *range(len(chosen), len(chosen) + len(convention.constants))]


def _recorded(
    program: Executable, convention: Convention, request: Request, report: GraphReport, passed: Sequence[int]
) -> RecordedProgram:
    """The program, wrapped to be recorded at its second call; the report says why where it cannot be. It returns the
    arguments `passed` behind its results."""

    def tell(outcome: str) -> None:
        report.cuda_graph = outcome

    outputs = [convention.outputs[i] for i in request.saved]
    saved = [output.index for output in outputs if output.kind == "tensor"]
    stay, metadata = _static_tensors(convention, request), program.metadata
    recorder = recorder_of(torch.device(metadata["device"]))
    return RecordedProgram(program, metadata, stay, recorder, program.fits, tell, saved, program.recorded, passed)


def report_of_steps(steps: dict[Node, str], kind: str) -> GraphReport:
    """The report of the steps at which a graph is cut."""
    counts = collections.Counter((str(node.target), reason) for node, reason in steps.items())
    calls: list[AtenCall] = [
        {"op": op, "reason": f"{reason}; it runs between programs", "route": "Python", "count": count, "where": ""}
        for (op, reason), count in counts.items()
    ]
    return GraphReport(f"{kind}, in pieces", aten_calls=calls)


def run_in_python(gm: GraphModule, request: Request, reason: str, warning: str | None = None) -> Boxed:
    """Runs the graph op by op in Python; the report gets `reason`, the log gets `warning` (by default the reason)."""
    refuse_unplanned(request.kind, request.options, f"the graph runs op by op ({reason})")
    compile_report.add(GraphReport(request.kind, fallback=reason, sets=request.sets))
    log.warning("the %s graph runs op by op: %s", request.kind, warning or reason)
    return op_by_op(gm)
