"""Lowers attention kernels, each of one op, to loops of vectors over blocks of queries and keys.

func @attention(%q, %k, %v, %o, %lse) {          scf.forall (%b, %h, %i) = (0, 0, 0) to (2, 12, 4) {
  kernel.attention(%q, %k, %v, %o, %lse)    →      scf.for %n = 0 to 256 step 128 {
    {tile = "64x128 by 4"}                           scores = k · q,  weights = exp(scores - peak)
}                                                    output = output * exp(old - peak) + v · weights } }

The sizes of batch, queries and keys may be symbolic: these sizes and the strides are then the kernel's parameters.
"""

from __future__ import annotations

from cuesta._mlir import func, ir
from cuesta.dialects import walk
from cuesta.dialects.cuesta.shape import SizeOp
from cuesta.dialects.index_arithmetic import index_of
from cuesta.dialects.kernel_attention import Backward, FewQueries, KernelAttention, is_attention
from cuesta.dialects.kernel_module import kernel_modules, parameters
from cuesta.dialects.types import size_of
from cuesta.lowering.attention_to_loops.backward import write_backward
from cuesta.lowering.attention_to_loops.few_queries import write_few_queries
from cuesta.lowering.attention_to_loops.forward import write_forward
from cuesta.passes.infra.registry import Pass, register_pass


def _write(op: ir.Operation) -> None:
    """Writes the loops of an attention op before the op."""
    if Backward.matches(op):
        write_backward(op)
    elif FewQueries.matches(KernelAttention.tile.of(op)):
        write_few_queries(op)
    else:
        write_forward(op)


@register_pass("tile-attention")
class TileAttention(Pass):
    """Lowers attention to loops over tiles of queries."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        for op in [o.operation for o in function.regions[0].blocks[0].operations]:
                            if is_attention(op):
                                with ir.InsertionPoint(op), op.location:
                                    _write(op)
                                op.erase()
                                _compute_sizes(function)


def _compute_sizes(function: func.FuncOp) -> None:
    """Replaces symbolic sizes by arithmetic on the kernel's parameters."""
    given = parameters(function)
    for op in [o for o in walk(function.operation) if SizeOp.matches(o)]:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(index_of(size_of(op), given))
        op.erase()
