"""Lets calls that add to a tensor write the sum over it, if the tensor is dead afterwards.

    %r = host.aten(%x, %y, %held) {packed_convolution_add}       host.aten(%x, %y, %held) {packed_convolution_add_}
    host.launch(%r, %z)                                     →    host.launch(%y, %z)

The library then reads and writes one memory, not two: oneDNN adds a convolution to it, ATen the gradients of a table's
rows. %y may be in a buffer of the host function, or a call's result: torch's own calls on the route "shim" return
memory that nothing else refers to (dialects/host/aten_abi.py, which lists the calls).
"""

from __future__ import annotations

from collections.abc import Iterator

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.host.aten_abi import IN_PLACE
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.plan_memory.lifetimes import byte_count


@register_pass("add-in-place")
class AddInPlace(Pass):
    """Lets calls write a sum over its summand, if the summand is dead afterwards."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                for view in list(function.regions[0].blocks[0].operations):
                    op = view.operation
                    if not host.Call.matches(op) or host.Call.route.of(op) != "shim":
                        continue
                    found = IN_PLACE.get(host.Call.overload.of(op))
                    if found is not None and _may_write(op, found[1]):
                        _write(op, *found)


def _may_write(op: ir.Operation, position: int) -> bool:
    """Whether a call may write over an operand: its memory may be overwritten, and nothing reads it later."""
    summand, others = op.operands[position], [x for i, x in enumerate(op.operands) if i != position]
    root, _ = host.base_of(summand)
    if summand.type != op.results[0].type or isinstance(root.owner, ir.Block):
        return False
    if any(root == host.base_of(x)[0] for x in others):
        return False
    maker = root.owner
    if host.Call.matches(maker):
        ours = host.Call.route.of(maker) == "shim"
    else:
        # A returned sum takes no more memory than it needs.
        returned = any(user.name == func.ReturnOp.OPERATION_NAME for user in _readers(op.results[0]))
        ours = host.Alloc.matches(maker) and (not returned or byte_count(root.type) == byte_count(summand.type))
    return ours and all(user == op or user.is_before_in_block(op) for user in _readers(root))


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that use a value, directly or through views."""
    for user in users(value):
        if host.View.matches(user):
            yield from _readers(user.results[0])
        else:
            yield user


def _write(op: ir.Operation, overload: str, position: int) -> None:
    """Replaces a call by one that writes over its operand at `position`."""
    operands, copied = list(op.operands), dict(op.attributes.items())
    with ir.InsertionPoint(op), op.location:
        dtypes = host.Call.dtypes.of(op)[: len(operands)]
        host.Call.build(operands, [], copied, overload=overload, dtypes=dtypes)
    op.results[0].replace_all_uses_with(op.operands[position])
    op.erase()
