"""Imports ops that create tensors: constants, ranges, copies and dropout masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import random, shape
from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import shape_of
from cuesta.frontend.aten.pointwise import operand
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size
from cuesta.torch_private.decompositions import is_non_overlapping_and_dense_or_false
from cuesta.torch_private.symbolic_shapes import free_unbacked_symbols


def _filled(b: Call, number: Any) -> Value:
    sizes, spelling = b.sizes, b.spelling
    if isinstance(number, ir.Value):
        return b.expand(b.convert(number, spelling), sizes)
    return b.constant(number, spelling, sizes)


@imports("full", "full_like", "fill", "new_full", "scalar_tensor")
def full(b: Call, *args: Any, **_: Any) -> Value:
    return _filled(b, args[-1])


@imports("zeros", "zeros_like", "new_zeros", "_efficientzerotensor", "ones", "ones_like", "new_ones")
def zeros(b: Call, *_: Any, **__: Any) -> Value:
    return _filled(b, 1 if "ones" in b.name else 0)


@imports("empty.memory_format", "empty_like", "new_empty", "empty_permuted", "empty_strided", "new_empty_strided")
def empty(b: Call, *_: Any, **__: Any) -> Value:
    meta = b.meta
    if _overlaps(meta):
        raise Decline("overlapping strides: several elements share an address")
    # The contents of an empty tensor are unspecified; zeros are reproducible.
    return _filled(b, 0)


def _overlaps(meta: torch.Tensor) -> bool:
    """Whether two elements may share a place: a stride is no longer than the extent of all smaller strides."""
    if is_non_overlapping_and_dense_or_false(meta):  # adds no guard on data-dependent sizes
        return False
    if free_unbacked_symbols(meta):
        return True
    extent = 0
    for stride, size in sorted(zip(meta.stride(), meta.shape, strict=True)):
        if size > 1:
            if stride <= extent:
                return True
            extent += (size - 1) * stride
    return False


@imports("arange")
def arange(b: Call, *args: Any, **kwargs: Any) -> Value:
    name = str(b.node.target)
    if "start_step" in name:
        start, step = args[0], args[2] if len(args) > 2 else kwargs.get("step", 1)
    elif name.endswith("start"):
        start, step = args[0], 1
    else:
        start, step = 0, 1
    spelling = b.spelling
    count = b.meta.shape[0]
    if types.is_float(spelling) and spelling not in ("f32", "f64") and not _exact(spelling, start, step, count):
        raise Decline("range of a narrow float that is not exact in it: ATen rounds each step in its own order")
    result = types.tensor(b.sizes, spelling)
    if not types.is_float(spelling) and any(isinstance(n, Size) for n in (start, step)):  # Iota takes no symbolic size
        ramp = b.with_number("mul", shape.Iota(0, 1, result).result, step)
        return b.with_number("add", ramp, start)
    kind = float if types.is_float(spelling) else int
    return shape.Iota(kind(start), kind(step), result).result


def _exact(spelling: str, start: float, step: float, count: Number) -> bool:
    """Whether all numbers of a range, and so all intermediate sums, are integers that the type represents exactly."""
    if isinstance(count, Size) or any(isinstance(n, Size) for n in (start, step)):
        return False
    most = 2 / torch.finfo(types.torch_dtype(spelling)).eps
    ends = (start, start + step * (count - 1))
    return all(int(n) == n for n in (start, step)) and all(abs(n) <= most for n in ends)


@imports("copy")
def copy(b: Call, destination: Value, source: Value, *_: Any) -> Value:
    return b.expand(operand(b, source, b.spelling), shape_of(destination))


@imports("native_dropout")
def native_dropout(b: Call, x: Value, p: float, train: bool | None) -> Sequence[Value]:
    if train is False:
        return [x, b.constant(1, "i1", shape_of(x))]
    op = random.Dropout(x, p, x.type, types.tensor(shape_of(x), "i1"))
    return list(op.operation.results)
