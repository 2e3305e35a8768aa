"""Reports a compile to torch's own logging, and its calls to torch's profiler, if the user asks for it.

    TORCH_LOGS="cuesta" (or "+cuesta")     a report of each graph; with +, the module after each stage
    TORCH_LOGS="output_code"               the code of each graph before LLVM: its kernels as loops, or as Triton IR
    TORCH_TRACE=folder                     those and the graph among tlparse's artifacts

A program from the cache has a report and no code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch

from cuesta.driver.calling import Run
from cuesta.frontend.fx_passes.fx_pipeline import Observer
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.schema.program import Step
from cuesta.torch_private.logs import (
    RecordFunctionFast,
    getArtifactLogger,
    is_artifact_wanted,
    is_profiling,
    print_as_torch,
    trace_structured,
)

log = logging.getLogger("cuesta")
_code_log = getArtifactLogger("cuesta", "output_code")

#: Stages whose module is written to TORCH_TRACE.
_TRACED = ("graph", "kernels", "loops", "tt")
#: Kernels that an event's name lists.
_NAMED = 3
#: The last stages that a person can read.
_CODE = ("loops", "tt")


def tell_stage(name: str, text: Callable[[], str]) -> None:
    """Logs a stage that has run. `text` makes the text of its module, and is called only if a log wants it."""
    if name in _CODE and _wants_code():
        _code_log.debug("cuesta, stage %s:\n%s", name, text())
    if log.isEnabledFor(logging.DEBUG):
        log.debug("stage %s:\n%s", name, text())
    if name in _TRACED:
        _trace(f"cuesta_{name}", text)


def tell_report(report: GraphReport) -> None:
    """Logs the report of a graph that was compiled or taken from the cache."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s", "\n".join(report.lines()))
    _trace("cuesta_report", lambda: "\n".join(report.lines()))


def observer(options: Options) -> Observer:
    """The observer of FX stages under these options: it logs each graph and, with `dump`, writes it to a file."""
    root = options.dump
    if root is None:
        return tell_stage
    from cuesta.driver.dump.stages import write_graph  # a compile without a dump needs no MLIR yet

    def observe(stage: str, text: Callable[[], str]) -> None:
        tell_stage(stage, text)
        write_graph(root, stage, text())

    return observe


def _trace(name: str, text: Callable[[], str]) -> None:
    described = {"name": name, "encoding": "string"}
    trace_structured("artifact", metadata_fn=lambda: described, payload_fn=text)


def _wants_code() -> bool:
    """Whether TORCH_LOGS or torch._logging.set_logs asked for output_code. Torch adds handlers to its own loggers only,
    so this adds one to ours."""
    if not is_artifact_wanted("output_code"):
        return False
    if not _code_log.hasHandlers():
        print_as_torch(_code_log)
    return _code_log.isEnabledFor(logging.DEBUG)


def profiled(run: Run, report: GraphReport, steps: Sequence[Step]) -> Run:
    """Wraps `run` in a profiler event while the profiler is on.

    Below it appear the calls into ATen that go through torch's dispatcher. CPU kernels and matrix products are called
    natively and have no events of their own.
    """
    event = RecordFunctionFast
    name = event_name(report, steps)

    def call(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if not is_profiling():
            return run(tensors)
        with event(name):
            return run(tensors)

    return call


def event_name(report: GraphReport, steps: Sequence[Step]) -> str:
    """`cuesta forward model.py:31 [gelu, add_native_layer_norm, and 2 more]`."""
    where = next((s["where"] for s in steps if s["kind"] != "check" and s["where"]), "")
    kernels = [kernel["name"] for kernel in report.kernels]
    more = [f"and {len(kernels) - _NAMED} more"] if len(kernels) > _NAMED else []
    listed = ", ".join([*kernels[:_NAMED], *more])
    return " ".join(["cuesta", report.name, *([where.rpartition("/")[2]] if where else []), f"[{listed}]"])
