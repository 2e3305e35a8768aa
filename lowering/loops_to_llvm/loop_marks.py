"""Moves loop annotations to the attribute that LLVM reads: upstream's lowering leaves them under another name.

llvm.br ^bb1 {llvm.loop_annotation = #a}      →      llvm.br ^bb1 {loop_annotation = #a}
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import LOOP_ANNOTATION
from cuesta.passes.infra.registry import Pass, register_pass

#: The attribute of a branch that LLVM reads.
_BRANCH_ANNOTATION = "loop_annotation"


@register_pass("loop-marks")
class LoopMarks(Pass):
    """Moves the annotations of loops to the attribute of branches that LLVM reads."""

    def run(self, module: ir.Module) -> None:
        for op in walk(module.operation):
            if op.name in ("llvm.br", "llvm.cond_br"):
                move_annotation(op)


def move_annotation(branch: ir.Operation) -> None:
    """Moves the annotation of a branch, if it has one, to the attribute that LLVM reads."""
    if LOOP_ANNOTATION in branch.attributes:
        branch.attributes[_BRANCH_ANNOTATION] = branch.attributes[LOOP_ANNOTATION]
        del branch.attributes[LOOP_ANNOTATION]
