"""Checks that no operand of a planned program exceeds its memory, and states in each launch how large its operands are.

    host.launch(%v, %r) {kernel = @k}   →   host.launch(%v, %r) {kernel = @k, extents = [128, 256]}

Run for `options={"checked": True}` only. An operand that is not within the memory that it is a view of is a
CompileError. If its place depends on the call, the runtime checks it (`checked` in the metadata lists these operands).
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.host import Launch
from cuesta.dialects.host.operands import CHECKED, Operand, Region, name_of, operands_of
from cuesta.errors import CompileError
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("check-operands")
class CheckOperands(Pass):
    """Refuses operands that are not within their memory, and states how many bytes of each a launch may touch."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            CHECKED.mark(module.operation)
            for function in functions(module):
                block = function.regions[0].blocks[0]
                for operand in operands_of(block):
                    _check(operand)
                for op in block.operations:
                    if Launch.matches(op.operation):
                        sizes = [Region.of(value).nbytes for value in op.operation.operands]
                        Launch.extents.put(op.operation, sizes)


def _check(operand: Operand) -> None:
    memory = Region.of(operand.base).nbytes
    end = operand.offset + operand.region.nbytes
    rest = memory - end
    begins_before = isinstance(operand.offset, int) and operand.offset < 0
    if begins_before or (isinstance(rest, int) and rest < 0 and operand.region.nbytes != 0):
        raise CompileError(
            f"{operand.what} takes the bytes from {operand.offset} to {end} of {name_of(operand.base)}, "
            f"which has {memory}, at {operand.op.location}"
        )
