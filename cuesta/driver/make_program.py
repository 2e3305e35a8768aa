"""Makes one program of one graph: `look_up` loads it from the disk cache, else `compile_program` lowers the graph.
`plan` only plans its memory."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from cuesta.driver.autotune.machine_trial import decide, decide_kinds, kinds_of
from cuesta.driver.cache.graph_cache import GraphCache
from cuesta.driver.calling import Run
from cuesta.driver.late.late_code import LateExecutable
from cuesta.driver.loading import MadeProgram, can_run, load
from cuesta.driver.own_errors import is_strict, raise_told
from cuesta.errors import CuestaError, Unsupported
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.frontend.convention import Convention, check_outputs
from cuesta.frontend.devices import place_graph
from cuesta.frontend.fx_passes.fx_pipeline import readable
from cuesta.frontend.fx_pipelines import ATEN
from cuesta.frontend.graph_key import graph_key
from cuesta.frontend.source_lines import by_number, in_lines_of, numbers_of
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.program import Program
from cuesta.runtime.sized import is_sized
from cuesta.sizes import assumptions
from cuesta.targets import Target
from cuesta.torch_private.configs import repro_after, suppresses_errors

if TYPE_CHECKING:  # a cached program needs no MLIR
    from cuesta.driver.dump.reproducer import LoweringFailed
    from cuesta.frontend.importer import ImportedGraph


@dataclass(frozen=True)
class Wanted:
    """A graph that is to be compiled, because the cache has no program for it."""

    gm: torch.fx.GraphModule
    kind: str
    options: Options
    donated: Sequence[int]
    target: Target
    device: torch.device
    #: the graph's part of the cache key
    text: str
    #: kind of matrix products → who computes them, as measured
    products: Mapping[str, str]
    #: kinds of products for which this has yet to be measured
    unknown: Sequence[str] = ()

    @functools.cached_property
    def cache(self) -> GraphCache:
        """The cache entry of the program. Its key depends on who computes the products."""
        return GraphCache.of(self.text, self.options, self.target, self.products)

    def decided(self, products: Mapping[str, str]) -> Wanted:
        """The same request with the measured choices."""
        return replace(self, products=products, unknown=())


def make_program(gm: torch.fx.GraphModule, kind: str, options: Options, report: GraphReport) -> MadeProgram:
    """Loads a graph's program from the cache, or compiles it; fills the report.

    `kind` is the graph's name. Raises what `look_up` and `compile_program` do.
    """
    found = look_up(gm, kind, options, report, donated=())
    return found if isinstance(found, MadeProgram) else compile_program(found, report)


def place_program(gm: torch.fx.GraphModule, options: Options) -> tuple[Target, torch.device]:
    """The target and the device of a graph's program. Raises Unsupported where such a program cannot be launched."""
    target, device = place_graph(gm, options.target)
    if not can_run(target):
        raise Unsupported(f"programs for {target} are not launched yet; cuesta.compile_for makes their kernels")
    return target, device


def look_up(
    gm: torch.fx.GraphModule,
    kind: str,
    options: Options,
    report: GraphReport,
    donated: Sequence[int],
    decide: Callable[[Sequence[str], Options, GraphReport], Mapping[str, str] | None] = decide_kinds,
) -> MadeProgram | Wanted:
    """The cached program, or a `Wanted` that says what to compile. Raises Unsupported for a graph that no program can
    run here.

    If `decide` does not know who computes the graph's products (`recall_kinds` may not), the result lists the unknown
    kinds and the cache is not asked: its keys contain the choice.
    """
    start = time.perf_counter()
    target, device = place_program(gm, options)
    kinds = kinds_of(gm, options, target)
    asked = time.perf_counter()
    products = decide(kinds, options, report)
    start += time.perf_counter() - asked  # measuring has its own entry
    text = f"{graph_key(gm)}\n{kind}, donated {donated}"
    wanted = Wanted(gm, kind, options, donated, target, device, text, products or {}, kinds if products is None else ())
    found = None
    if options.dump:
        # A cached program has no stages any more.
        report.cache["reason"] = "a dump needs every stage, so the graph is compiled"
    elif wanted.unknown:
        report.cache = {"hit": False, "reason": "library and kernel have not been timed yet for its products"}
    else:
        found = wanted.cache.load(gm, report)
        if found is not None and report.instead and is_strict():
            found, report.instead = None, []
            report.cache = {
                "hit": False,
                "reason": "the cached program calls ATen where a kernel failed, which CUESTA_STRICT forbids",
            }
    report.times["key and cache"] = time.perf_counter() - start
    if found is None:
        return wanted
    artefact, executable, convention = found
    in_lines_of(artefact.metadata, gm)
    return MadeProgram(executable, convention, wanted.cache.key, lambda: artefact)


def compile_program(wanted: Wanted, report: GraphReport, go_around_failures: bool = True) -> MadeProgram:
    """Compiles, loads and keeps a graph's program.

    LLVM may still be making the code of a CPU program when this returns; the first call waits for it. If a kernel
    does not compile, its ops are called in ATen instead. Raises Unsupported or DeviceError where no program for the
    graph can run here, and any other CompileError where a pass fails: LoweringFailed without `go_around_failures`.
    """
    from cuesta.dialects import make_context
    from cuesta.driver.dump.reproducer import LoweringFailed
    from cuesta.driver.dump.stages import Dump
    from cuesta.driver.lower import Lowering

    numbers = numbers_of(wanted.gm)
    try:
        with make_context(), assumptions():
            with report.timed("import"):
                graph = _imported(wanted)
            dump = Dump.open(wanted.options.dump, wanted.kind) if wanted.options.dump else None
            if dump is not None:
                dump.write_beside("aten.py", readable(wanted.gm))
            lowering = Lowering(graph.module, wanted.options, report, dump=dump)
            lowering.run()
            begun = lowering.begin_code()
            late = go_around_failures and dump is None and not wanted.target.gpu and _may_be_late(begun.program)
            artefact = None if late else begun.finish()
    except LoweringFailed as failure:
        if not go_around_failures:
            raise
        return _around(failure, wanted, report)

    def keep(made: Artefact) -> Executable:
        return load_and_keep(made, wanted, graph.convention, numbers, report)

    if artefact is None:
        otherwise = functools.partial(_without_code, wanted, report, graph.convention)
        program = LateExecutable(begun, keep, report, otherwise)
        return MadeProgram(program, graph.convention, wanted.cache.key, program.artefact)
    with report.timed("load and keep"):
        executable = keep(artefact)
    if dump is not None:
        report.dump = dump.outcome()
        dump.finish(report.lines())
        report.dump = dump.outcome()
    return MadeProgram(executable, graph.convention, wanted.cache.key, lambda: artefact)


def load_and_keep(
    artefact: Artefact, wanted: Wanted, convention: Convention, numbers: Mapping[str, int], report: GraphReport
) -> Executable:
    """Loads a new artefact and stores it in the cache. `numbers` maps the names of the graph's nodes to their numbers.
    Raises ArtefactError or DeviceError where the program does not load on this machine."""
    artefact.metadata["convention"] = convention.as_dict()
    by_number(artefact.metadata, numbers)
    executable = load(artefact, wanted.cache.cache)
    wanted.cache.store(artefact, report)
    return executable


def _around(failure: LoweringFailed, wanted: Wanted, report: GraphReport) -> MadeProgram:
    """Compiles the graph again with the ops of failing kernels called in ATen.

    Raises LoweringFailed where that fails too. In strict mode it raises the error for the user instead of compiling
    again.
    """
    from cuesta.driver.going_around import go_around

    if is_strict():
        raise_told(failure)
    at_once = functools.partial(compile_program, wanted, report, go_around_failures=False)
    opt_level, lowers = wanted.options.opt_level, functools.partial(_lowers, wanted)
    return go_around(wanted.gm, failure, report, opt_level, at_once, lowers)


def _without_code(wanted: Wanted, report: GraphReport, convention: Convention, failure: CuestaError) -> Run:
    """The replacement for a program whose code could not be made or loaded."""
    from cuesta.driver.going_around import run_otherwise

    return run_otherwise(failure, wanted.gm, convention, report, lambda again: _around(again, wanted, report))


def _may_be_late(program: Program) -> bool:
    """Whether a program may be returned before LLVM has made its code.

    Not where errors are suppressed or a minifier runs: both need LLVM's errors during the compile.
    """
    return not is_sized(program) and not suppresses_errors() and repro_after() is None


def _imported(wanted: Wanted) -> ImportedGraph:
    """Imports the graph with its current marks into the current MLIR context. Raises Unsupported."""
    from cuesta.dialects.top_module import mark_products
    from cuesta.frontend.importer import import_graph

    graph = import_graph(wanted.gm, wanted.donated, wanted.target, wanted.device)
    mark_products(graph.module, wanted.products)
    check_outputs(graph.convention.outputs)
    return graph


def _lowers(wanted: Wanted, failure: LoweringFailed) -> bool:
    """Whether the graph with its current marks passes the stage that failed."""
    from cuesta._mlir import ir
    from cuesta.dialects import make_context
    from cuesta.driver.failed_kernels import gets_through

    try:
        with make_context(), ir.Location.unknown(), assumptions():
            module = _imported(wanted).module
            return gets_through(module, failure.pipelines, failure.stage, wanted.options.opt_level)
    except Unsupported:
        return False


def plan(
    gm: torch.fx.GraphModule, kind: str, options: Options, report: GraphReport, donated: Sequence[int] | None = None
) -> None:
    """Fills `report` with the kernels, the calls and the memory of a functional ATen graph's program.

    `donated` are the positions of arguments whose memory is free after their last use (if None, those that AOTAutograd
    donates). Raises Unsupported, DeviceError or another CompileError as compiling does, and MemoryLimitError.
    """
    from cuesta.dialects import make_context
    from cuesta.dialects.top_module import mark_products
    from cuesta.driver.lower import Lowering
    from cuesta.driver.stage_pipelines import PLANNING
    from cuesta.frontend.importer import import_graph

    target, device = place_program(gm, options)
    if donated is None:
        donated = donated_arguments(gm) if kind == "backward" else []
    ATEN.run(gm, options)
    with make_context(), assumptions():
        module = import_graph(gm, donated, target, device).module
        mark_products(module, decide(gm, options, target, report))
        # What is measured for the program itself is not measured for its plan too.
        Lowering(module, replace(options, max_autotune=False, dump=None), report).run(PLANNING)


def import_program(wanted: Wanted) -> tuple[Convention, bytes, dict[str, bool]]:
    """Imports a graph for another process to compile.

    Returns the calling convention, the module in the cuesta dialect as MLIR bytecode, and the assumptions about its
    sizes. Raises Unsupported.
    """
    from cuesta.dialects import make_context
    from cuesta.driver.dump.reproducer import as_bytecode

    with make_context(), assumptions() as noted:
        graph = _imported(wanted)
        return graph.convention, as_bytecode(graph.module), dict(noted)
