"""Lowers a graph to its memory plan, without making machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from cuesta.driver.autotune.machine_trial import decide
from cuesta.driver.make_program import place_program
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.frontend.fx_pipelines import ATEN
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.sizes import assumptions


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
