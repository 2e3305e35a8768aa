"""One graph as one program: from the disk cache, or down through every stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cuesta.compile_report import GraphReport
from cuesta.errors import Unsupported
from cuesta.frontend.bitwise import mark_calls
from cuesta.frontend.calling import Convention, check_outputs
from cuesta.frontend.devices import place_graph
from cuesta.frontend.graph_cache import GraphCache
from cuesta.frontend.graph_key import graph_key
from cuesta.frontend.loading import can_run, load
from cuesta.options import Options
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.sizes import assumptions


@dataclass(frozen=True)
class MadeProgram:
    """A compiled graph: what is kept of it, loaded, and how it is called."""

    artefact: Artefact
    executable: Executable
    convention: Convention
    #: of its entry in the cache
    key: str


def make_program(
    gm: torch.fx.GraphModule, kind: str, options: Options, report: GraphReport, donated: Sequence[int] = ()
) -> MadeProgram:
    """Compiles a graph, or takes it from the cache; fills the report.

    `kind` is its name, `donated` are the positions of arguments whose memory nobody needs after a call. Raises
    Unsupported or DeviceError where no program can run it here, and any other CompileError where a pass fails.
    """
    start = time.perf_counter()
    target, device = place_graph(gm, options.target)
    if not can_run(target):
        raise Unsupported(f"programs for {target} are not launched yet; cuesta.compile_for makes their kernels")
    cache = GraphCache.of(f"{graph_key(gm)}\n{kind}, donated {donated}", options, target)
    found = None
    if options.dump:
        # Which a cached program has left behind.
        report.cache["reason"] = "a dump wants every stage"
    else:
        found = cache.load(report)
    report.times["key and cache"] = time.perf_counter() - start
    if found is not None:
        artefact, executable = found
        return MadeProgram(artefact, executable, Convention.from_dict(artefact.metadata["convention"]), cache.key)

    # Imported here: a cached program needs no MLIR.
    from cuesta.dialects import make_context
    from cuesta.frontend.compile import lower_module
    from cuesta.frontend.dump import Dump
    from cuesta.frontend.importer import import_graph

    start = time.perf_counter()
    mark_calls(gm, options)
    with make_context(), assumptions():
        graph = import_graph(gm, donated, target, device)
        check_outputs(graph.convention.outputs)
        report.times["import"] = time.perf_counter() - start
        dump = Dump.open(options.dump, kind) if options.dump else None
        artefact = lower_module(graph.module, options, report, dump=dump)
    artefact.metadata["convention"] = graph.convention.as_dict()
    start = time.perf_counter()
    executable = load(artefact)
    cache.store(artefact, report)
    report.times["load and keep"] = time.perf_counter() - start
    if dump is not None:
        report.dump = dump.outcome()
        dump.finish(report.lines())
        report.dump = dump.outcome()
    return MadeProgram(artefact, executable, graph.convention, cache.key)
