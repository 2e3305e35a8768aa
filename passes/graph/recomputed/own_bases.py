"""Gives each scatter a constant of its own to write into, where several share one.

    %z = cuesta.constant 0.0                      %z = cuesta.constant 0.0
    %0 = cuesta.scatter(%z, %a, %i)          →    %y = cuesta.constant 0.0
    %1 = cuesta.scatter(%z, %b, %i)               %0 = cuesta.scatter(%y, %a, %i)
                                                  %1 = cuesta.scatter(%z, %b, %i)

A scatter writes over its first operand in place if no later op reads that operand. Of several scatters that share a
constant only the last could do so: the constant would be live until then, and each of the others would write to a copy.
Filling a buffer takes less time than copying one.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker, ops_named
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.cuesta.shape import Constant
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("own-bases")
class OwnBases(Pass):
    """Gives each scatter a constant of its own to write into."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                for scatter in ops_named(function.operation, {Scatter.OPERATION_NAME}):
                    _own_base(scatter)


def _own_base(scatter: ir.Operation) -> None:
    """Repeats the constant that a scatter writes into, if it has other users."""
    base = scatter.operands[0]
    constant = maker(base, Constant)
    if constant is None or len(users(base)) == 1:
        return
    with ir.InsertionPoint(scatter), constant.location:
        scatter.operands[0] = repeat_op(constant, [], base.type).results[0]
