"""Lowers a graph to its memory plan, without making machine code."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta.driver.autotune.machine_trial import decide
from cuesta.driver.loading import can_run
from cuesta.errors import Unsupported
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.frontend.devices import place_graph
from cuesta.frontend.fx_passes.eagers_calls import mark_calls
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.sizes import assumptions


def plan(
    gm: torch.fx.GraphModule,
    kind: str,
    options: Options,
    report: GraphReport,
    donated: Sequence[int] | None = None,
) -> None:
    """Fills `report` with the kernels, the calls and the memory of a functional ATen graph's program.

    `donated` are the positions of arguments whose memory is free after their last use (if None, those that AOTAutograd
    donates). Raises Unsupported, DeviceError or another CompileError as compiling does, and MemoryLimitError.
    """
    import cuesta.passes
    from cuesta import dialects
    from cuesta.dialects.module_products import mark_products
    from cuesta.driver.compile import PLANNING, describe_program, run_stage
    from cuesta.frontend.importer import import_graph
    from cuesta.passes.pipelines import stages_for

    target, device = place_graph(gm, options.target)
    if not can_run(target):
        raise Unsupported(f"programs for {target} are not launched yet; cuesta.compile_for makes their kernels")
    if donated is None:
        donated = donated_arguments(gm) if kind == "backward" else []
    cuesta.passes.load_all()
    mark_calls(gm, options)
    with dialects.make_context(), assumptions():
        module = import_graph(gm, donated, target, device).module
        mark_products(module, decide(gm, options, target, report))
        for name, stage in stages_for(target).items():
            module = run_stage(stage, module, options, report)
            if options.verify:
                dialects.verify(module, f"stage {name}")
            if name == PLANNING:
                break
        describe_program(module, report)
