"""In which order a tensor's dims lie in memory, as far as the graph tells before layouts are decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.types import shape_of

Value: TypeAlias = ir.Value


def memory_order(value: Value) -> list[int]:
    """The dims of `value` from the slowest to the fastest.

    Arguments and calls into libraries say theirs; what is computed lies as its largest operand does, and row-major
    where nothing tells: form-kernels decides so too.
    """
    steps: list[list[int]] = []
    while True:
        strides = _known_strides(value)
        if strides is not None or isinstance(value.owner, ir.Block):
            break
        op = value.owner.operation
        if op.name == "cuesta.permute":
            steps.append(ints(op.attributes["dims"]))
            value = op.operands[0]
            continue
        like = [x for x in op.operands if shape_of(x) == shape_of(value)]
        if not op.name.startswith("cuesta.") or not like:
            break
        value = like[0]
    order = list(range(len(shape_of(value))))
    if strides is not None:
        order.sort(key=lambda d: -strides[d])
    for dims in reversed(steps):
        order = [dims.index(d) for d in order]
    return order


def _known_strides(value: Value) -> Sequence[int] | None:
    owner = value.owner
    if isinstance(owner, ir.Block):
        attributes = owner.owner.attributes
        if "arg_attrs" not in attributes:
            return None
        own = attributes["arg_attrs"][ir.BlockArgument(value).arg_number]
        return ints(own["cuesta.strides"]) if "cuesta.strides" in own else None
    if "result_strides" in owner.attributes:
        number = next(i for i, r in enumerate(owner.results) if r == value)
        return ints(owner.attributes["result_strides"][number])
    return ints(owner.attributes["strides"]) if owner.name == "cuesta.copy" else None
