"""Writes the part of a dump that is no stage: each kernel in a file of its own, and the picture of the graph."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.driver.dump.stages import Dump
from cuesta.reports.compile_report import GraphReport


def write_kernels_and_picture(dump: Dump, module: ir.Module, report: GraphReport, picture: bool) -> None:
    """Writes `kernels/NAME.mlir` for each kernel of a module at stage kernels, and graph.svg where asked for."""
    for kernels in kernel_modules(module):
        for view in kernels.body.operations:
            op = view.operation
            if "sym_name" in op.attributes:
                text = op.get_asm(enable_debug_info=True)
                dump.write_beside(f"kernels/{op.attributes['sym_name'].value}.mlir", f"{text}\n")
    if picture:
        from cuesta.driver.dump.picture import draw

        dump.write_beside("graph.svg", draw(module, next(report.lines())))
