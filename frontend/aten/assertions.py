"""Imports assertions about tensors' values: a failed assertion ends the program with eager's error."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import shape_of
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports

#: ATen's messages for calls without a message of their own.
_UNSAID = {
    "aten._assert_async.default": "Expected Tensor with single nonzero value, but got zero",
    "aten._assert_async.msg": "Assertion is failed",
}


@imports("_assert_async.default", "_assert_async.msg")
def assert_async(b: Call, x: Value, message: str = "") -> None:
    if any(size != 1 for size in shape_of(x)):
        raise Decline("assertion of several elements: ATen raises")
    host.Check.build([_is_false(b, x)], message=message or _UNSAID[str(b.node.target)], raises="RuntimeError")


def _is_false(b: GraphBuilder, x: Value) -> Value:
    """Whether x is false. `not all(…)` is built as `any(not …)`: a reduction without an op after it can share a kernel
    with others."""
    if not isinstance(x.owner, ir.Block) and reduction.OPS["all"].matches(x.owner):
        (each,), dims = x.owner.operands, reduction.Reduced.dims.of(x.owner)
        return b.reshape(b.reduce("any", b.pointwise("logical_not", b.convert(each, "i1")), dims), [])
    return b.pointwise("logical_not", b.convert(b.reshape(x, []), "i1"))
