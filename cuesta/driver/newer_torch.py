"""Runs a graph op by op where a newer torch lacks what cuesta needs to compile it. `cuesta/torch_versions.py` says
why."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuesta import torch_versions
from cuesta.options import Environment
from cuesta.reports import compile_report
from cuesta.reports.compile_report import GraphReport

#: Graph, example inputs and keywords → what runs the graph.
Compile = Callable[..., Any]


def else_op_by_op(compile: Compile, run: Callable[[torch.fx.GraphModule, str], Any]) -> Compile:
    """`compile` itself with a torch that was tested. With a newer one, `run(graph, why)` takes over where torch lacks
    something; with CUESTA_STRICT set the error is raised."""
    if not torch_versions.is_untested():
        return compile

    @functools.wraps(compile)
    def compile_or_run(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
        torch_versions.warn_if_untested()
        # A compile that fails on its way has changed the graph.
        untouched = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
        untouched.meta.update(gm.meta)
        try:
            return compile(gm, example_inputs, **kwargs)
        except torch_versions.LOST_NAME as error:
            if Environment.read().strict:
                raise
            return run(untouched, torch_versions.told(error))

    return compile_or_run


def run_in_eager(gm: torch.fx.GraphModule, why: str) -> Callable[..., Any]:
    """Dynamo's graph as it is, with the reason in a warning and in the report."""
    torch_versions.warn_once(f"graphs run op by op: {why}")
    compile_report.add(GraphReport("whole", fallback=why))
    return gm.forward
