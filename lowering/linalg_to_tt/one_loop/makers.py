"""Tells which nodes of a kernel make a value, and whether two values are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuesta.dialects.kernel_module import body_ops
from cuesta.lowering.linalg_to_tt.frame import Value
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


def made(writer: KernelWriter, value: Value) -> Node | None:
    return next((node for node in writer.nodes if value in node.op.results), None)


def maker(writer: KernelWriter, node: Node, kind: Any, operands: Sequence[int]) -> Node | None:
    """The node that makes the first input of `node`, if this is one op of its inputs and its result so far."""
    return made(writer, node.inputs[0][0]) if is_op(node, kind, operands) else None


def is_op(node: Node, kind: Any, operands: Sequence[int]) -> bool:
    """Whether the body of `node` is one op, of these of the body's arguments."""
    ops, arguments = [*body_ops(node.op)], node.op.regions[0].blocks[0].arguments
    return (
        len(ops) == 2 and ops[0].name == kind.OPERATION_NAME and [*ops[0].operands] == [arguments[n] for n in operands]
    )


def are_same(writer: KernelWriter, x: Value, y: Value) -> bool:
    """Whether two tensors are the same, as they are made in the same way."""
    if x == y:
        return True
    one, other = made(writer, x), made(writer, y)
    if one is None or other is None or one.reduced or other.reduced or one.accesses != other.accesses:
        return False
    inputs = [(a, b) for (a, _), (b, _) in zip(one.inputs, other.inputs, strict=False)]
    return _text(one) == _text(other) and all(are_same(writer, a, b) for a, b in inputs)


def _text(node: Node) -> list[tuple[object, ...]]:
    """The ops of a body: equal for bodies that compute the same function."""
    names: dict[Value, object] = {a: n for n, a in enumerate(node.op.regions[0].blocks[0].arguments)}
    found = []
    for op in body_ops(node.op):
        attributes = tuple((name, str(attribute)) for name, attribute in op.attributes.items())
        found.append((op.name, attributes, *(names.get(x, x) for x in op.operands), *(str(r.type) for r in op.results)))
        names |= {result: (len(found), n) for n, result in enumerate(op.results)}
    return found
