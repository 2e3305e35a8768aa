"""Lets convolutions that add to a summand write the sum over it, if the summand is dead afterwards.

    %r = host.aten(%x, %y, %held) {packed_convolution_add}       host.aten(%x, %y, %held) {packed_convolution_add_}
    host.launch(%r, %z)                                     →    host.launch(%y, %z)

oneDNN then reads and writes one memory, not two. %y may be in a buffer of the host function, or a call's result:
torch's own calls on the route "shim" return memory that nothing else refers to (dialects/host/aten_abi.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.host.packed_convolutions import ADDING, ADDING_IN_PLACE
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("add-in-place")
class AddInPlace(Pass):
    """Lets convolutions write a sum over its summand, if the summand is dead afterwards."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                for op in list(function.regions[0].blocks[0].operations):
                    if _adds(op.operation) and _may_write(op.operation):
                        _write(op.operation)


def _adds(op: ir.Operation) -> bool:
    return host.Call.matches(op) and host.Call.overload.of(op) == ADDING


def _may_write(op: ir.Operation) -> bool:
    """Whether the convolution may write over the summand: its memory may be overwritten, and nothing reads it later."""
    x, summand, _ = op.operands
    root, _ = host.base_of(summand)
    if summand.type != op.results[0].type or isinstance(root.owner, ir.Block) or root == host.base_of(x)[0]:
        return False
    maker = root.owner
    if host.Call.matches(maker):
        ours = host.Call.route.of(maker) == "shim"
    else:
        # A returned sum gets memory of its own, no larger than it needs.
        returned = any(user.name == func.ReturnOp.OPERATION_NAME for user in _readers(op.results[0]))
        ours = host.Alloc.matches(maker) and not returned
    return ours and all(user == op or user.is_before_in_block(op) for user in _readers(root))


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that use a value, directly or through views."""
    for user in users(value):
        if host.View.matches(user):
            yield from _readers(user.results[0])
        else:
            yield user


def _write(op: ir.Operation) -> None:
    operands, copied = list(op.operands), dict(op.attributes.items())
    with ir.InsertionPoint(op), op.location:
        dtypes = host.Call.dtypes.of(op)[: len(operands)]
        host.Call.build(operands, [], copied, overload=ADDING_IN_PLACE, dtypes=dtypes)
    op.results[0].replace_all_uses_with(op.operands[1])
    op.erase()
