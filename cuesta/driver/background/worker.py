"""Compiles programs in a background process: reads modules from stdin, writes artefacts to stdout.

A request holds a module fresh from the importer as MLIR bytecode, the options, the importer's assumptions about sizes,
and the kinds of products for which the worker is to measure who computes them. The answer is the artefact with the
times of the stages and the measured choices, or the error.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from cuesta.errors import CuestaError
from cuesta.lowering.tt_to_binary.kernel import pack
from cuesta.lowering.tt_to_binary.worker import answer_requests
from cuesta.options import Environment, Options
from cuesta.reports.compile_report import GraphReport
from cuesta.targets import Target

#: Seconds without a request after which the worker ends by itself.
_IDLE = 300.0


def request_of(
    module: bytes, kind: str, options: Options, assumed: dict[str, bool], unknown: Sequence[str], threads: int
) -> bytes:
    """The bytes of a request, which `serve` reads."""
    values: dict[str, Any] = {}
    for option in dataclasses.fields(Options):
        value = getattr(options, option.name)
        is_text = isinstance(value, (Target, os.PathLike))
        values[option.metadata["name"] or option.name] = str(value) if is_text else value
    head = {"kind": kind, "options": values, "assumed": assumed, "unknown": list(unknown), "threads": threads}
    return pack(head, module)


def answer_to(head: dict[str, Any], module: bytes) -> tuple[dict[str, Any], bytes]:
    """The answer to a request: the artefact, or the error."""
    import torch

    from cuesta._mlir import ir
    from cuesta.dialects import make_context
    from cuesta.dialects.top_module import mark_products
    from cuesta.driver.autotune.machine_trial import decide_kinds
    from cuesta.driver.lower import lower_module
    from cuesta.sizes import assumptions

    torch.set_num_threads(head["threads"])
    options = Options.from_torch(None, head["options"], Environment())
    report = GraphReport(head["kind"])
    decided = decide_kinds(head["unknown"], options, report)
    try:
        with make_context() as context, assumptions() as noted:
            noted.update(head["assumed"])
            graph = ir.Module.parse(module, context)
            mark_products(graph, decided)
            artefact = lower_module(graph, options, report)
    except CuestaError as error:
        return {"error": f"{type(error).__name__}: {error}"}, b""
    return {"times": report.times, "decided": decided, "products": report.products}, artefact.to_bytes()


def serve() -> None:
    """Answers requests for programs until there are no more."""

    def prepare() -> None:
        import cuesta.driver.lower  # noqa: F401  before the first request needs it
        from cuesta.passes.infra.registry import all_passes

        all_passes()

    answer_requests(prepare, answer_to, _IDLE)
