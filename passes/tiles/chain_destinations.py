"""Gives each `materialize_in_destination` a value of its own: a second destination of a value is copied from the first.

%1 = bufferization.materialize_in_destination %0 in %a      →      %1 = … %0 in %a
%2 = bufferization.materialize_in_destination %0 in %b             %2 = … %1 in %b

Results that are different ops when a kernel is formed may later become one value (a maximum of x and x), or an argument
(`where(c, x, x)`). Bufferisation gives a value one buffer. If the value had two destinations, bufferisation would read
one of them before it is written; and it would read an argument that the kernel updates in place after the update.
"""

from __future__ import annotations

from cuesta._mlir import bufferization, ir
from cuesta.dialects import walk
from cuesta.passes.infra.graph_rewrite import users
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("chain-destinations")
class ChainDestinations(Pass):
    """Chains the destinations of one value, and copies arguments to theirs before they are overwritten."""

    def run(self, module: ir.Module) -> None:
        name = bufferization.MaterializeInDestinationOp.OPERATION_NAME
        ops = [op for op in walk(module.operation) if op.name == name]
        written = {op.operands[1] for op in ops}
        placed: dict[ir.Value, ir.Value] = {}
        for op in ops:
            source, destination = op.operands
            if source in placed:
                op.operands[0] = placed[source]
            elif source in written and len(users(destination)) == 1:
                op.move_before(source.owner.operations[0])
            placed[source] = op.results[0]
