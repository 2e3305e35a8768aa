"""What memory a buffer is, through views of views."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir

#: What only says where in a buffer something lies.
VIEWS = ("memref.subview", "memref.reinterpret_cast", "memref.cast")


def memory_of(value: ir.Value) -> ir.Value:
    """The buffer that a view is of: an argument, of which no two overlap, or memory of the kernel's own."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def bound_shape(value: ir.Value) -> tuple[list[int | ir.Value], list[int | ir.Value]] | None:
    """Sizes and strides of the buffer that a view is of, where the kernel is passed some of them; else None."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        op = value.owner.operation
        if op.name == "memref.reinterpret_cast":
            _, offsets, sizes, strides = list(op.attributes["operandSegmentSizes"])
            first = 1 + offsets
            last = list(op.operands)[first:]
            return _mixed(op.attributes["static_sizes"], last[:sizes]), _mixed(
                op.attributes["static_strides"], last[sizes : sizes + strides]
            )
        value = op.operands[0]
    return None


def _mixed(numbers: Sequence[int], values: Sequence[ir.Value]) -> list[int | ir.Value]:
    """The numbers, with the values in the places of those that are not known."""
    dynamic, left = ir.ShapedType.get_dynamic_size(), iter(values)
    return [next(left) if n == dynamic else n for n in numbers]
