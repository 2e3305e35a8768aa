"""Makes and reads the types of the tt level: scalars, pointers, and blocks of either.

    f32    !tt.ptr<f32>    tensor<64x128xf32>    tensor<64x!tt.ptr<f32>>

MLIR here takes `!tt.ptr<…>` as opaque text; Triton's parser gives it its meaning. A bool in memory is
a byte, so a pointer to it is `!tt.ptr<i8>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from cuesta._mlir import ir

#: Elements that a kernel can load and store.
STORABLE = frozenset({"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8"})

#: Triton refuses larger blocks.
LARGEST_BLOCK = 1 << 20

Typed: TypeAlias = ir.Value | ir.Type


def element(spelling: str | ir.Type) -> ir.Type:
    """The scalar type of that spelling in the current context."""
    return spelling if isinstance(spelling, ir.Type) else ir.Type.parse(spelling)


def pointer_type(pointee: str | ir.Type) -> ir.Type:
    """`!tt.ptr<pointee>` in the current context."""
    return ir.Type.parse(f"!tt.ptr<{pointee}>")


def block_type(shape: Sequence[int], of: str | ir.Type) -> ir.Type:
    """`tensor<AxBxof>`; the scalar type itself for the shape ()."""
    scalar = element(of)
    return ir.RankedTensorType.get(list(shape), scalar) if len(shape) else scalar


def type_of(x: Typed) -> ir.Type:
    return x.type if isinstance(x, ir.Value) else x


def is_block(x: Typed) -> bool:
    return isinstance(type_of(x), ir.RankedTensorType)


def shape_of(x: Typed) -> tuple[int, ...]:
    """The shape of a block; () for a scalar."""
    kind = type_of(x)
    return tuple(kind.shape) if isinstance(kind, ir.RankedTensorType) else ()


def element_of(x: Typed) -> ir.Type:
    """The element type of a block; the type itself for a scalar."""
    kind = type_of(x)
    return kind.element_type if isinstance(kind, ir.RankedTensorType) else kind


def is_pointer(x: Typed) -> bool:
    """Whether x is a pointer or a block of pointers."""
    kind = element_of(x)
    return isinstance(kind, ir.OpaqueType) and str(kind).startswith("!tt.ptr<")


def pointee_spelling(x: Typed) -> str:
    """The spelling of the type that a pointer, or a block of pointers, points to."""
    return str(element_of(x)).removeprefix("!tt.ptr<").removesuffix(">").partition(",")[0]


def pointee(x: Typed) -> ir.Type:
    """The type that a pointer, or a block of pointers, points to."""
    kind = type_of(x)
    return ir.Type.parse(pointee_spelling(x), kind.context)


def loaded_type(pointer: Typed) -> ir.Type:
    """The type of a load through `pointer`: a scalar, or a block of the pointers' shape."""
    return block_type(shape_of(pointer), pointee(pointer))


def block_problem(x: Typed) -> str | None:
    """Why Triton does not accept the type, or None."""
    if is_block(x):
        shape = shape_of(x)
        if not shape or any(d <= 0 or d & (d - 1) for d in shape):
            return f"has a block {type_of(x)} whose dims are not all powers of two"
        if prod(shape) > LARGEST_BLOCK:
            return f"has a block {type_of(x)} of {prod(shape)} elements; Triton takes at most {LARGEST_BLOCK}"
    if is_pointer(x) and pointee_spelling(x) not in STORABLE:
        hint = "; a bool in memory is a byte: !tt.ptr<i8>" if pointee_spelling(x) == "i1" else ""
        return f"has a pointer to {pointee_spelling(x)}; memory holds {', '.join(sorted(STORABLE))}{hint}"
    return None
