"""Moves loop annotations to the attribute that LLVM reads: upstream's lowering leaves them under another name.

llvm.br ^bb1 {llvm.loop_annotation = #a}      →      llvm.br ^bb1 {loop_annotation = #a}
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import walk
from cuesta.passes.infra.registry import Pass, register_pass

_MARK, _LLVMS = "llvm.loop_annotation", "loop_annotation"


@register_pass("loop-marks")
class LoopMarks(Pass):
    """Moves the annotations of loops to the attribute of branches that LLVM reads."""

    def run(self, module: ir.Module) -> None:
        for op in walk(module.operation):
            if op.name in ("llvm.br", "llvm.cond_br") and _MARK in op.attributes:
                op.attributes[_LLVMS] = op.attributes[_MARK]
                del op.attributes[_MARK]
