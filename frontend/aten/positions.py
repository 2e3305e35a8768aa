"""Builds reads and writes at positions that the graph computes: `cuesta.index` and `cuesta.scatter`.

Rules of all families use these builders. This module has no rules, so no rule module has to import another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta.dialects import types
from cuesta.dialects.cuesta import indexing
from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.fields import Marker
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.kernel_scatter import atomic_of
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.rules import Decline
from cuesta.sizes import estimate

#: A sum in f32 converts the tensor to f32 and back. The most elements that the tensor may have for each element that is
#: added.
_WIDE_SHARE = 0.5


def index_into(
    b: GraphBuilder, x: Value, indices: Sequence[Value], dims: list[int], in_range: bool = False, wraps: bool = False
) -> Value:
    """x at `indices` along `dims`, in ascending order; the indices broadcast. `in_range`: the indices are known to be
    inside x. `wraps`: negative indices count from the end; else they are out of range."""
    shapes = indexing.indexed_shape(shape_of(x), [shape_of(i) for i in indices], dims)
    if shapes is None:
        raise Decline("the indices are not known to broadcast together")
    if 0 in shape_of(x):
        raise Decline("indexing into a tensor without elements")
    result = types.tensor(shapes[0], spelling_of(x))
    together = [b.expand(b.convert(i, "i64"), shapes[1]) for i in indices]
    value = indexing.Index(x, together, dims, result).result
    if not wraps:
        (indexing.Index.in_range if in_range else indexing.Index.from_zero).mark(value.owner)
    return value


def write_at(
    b: GraphBuilder,
    x: Value,
    value: Value,
    indices: Sequence[Value],
    walks: Sequence[int],
    combine: str,
    flag: Marker | None = None,
) -> Value:
    """`cuesta.scatter` of `value`, of x's type; `indices` broadcast to its shape. `flag` is `Scatter.wraps` or
    `Scatter.in_range`. Raises Decline where the call has to stay ATen's.
    """
    if combine != "set" and spelling_of(x).startswith("complex"):
        raise Decline("complex numbers that are combined at one position")
    if combine == "add" and _is_added_wide(x, value):
        x, value, spelling = b.convert(x, "f32"), b.convert(value, "f32"), spelling_of(x)
        return b.convert(write_at(b, x, value, indices, walks, combine, flag), spelling)
    reason = _called_for(x, combine)
    if reason is not None:
        raise Decline(reason)
    together = [b.expand(b.convert(i, "i64"), shape_of(value)) for i in indices]
    result = Scatter(x, value, together, walks, combine, x.type).result
    if flag is not None:
        flag.mark(result.owner)
    return result


def _is_added_wide(x: Value, value: Value) -> bool:
    """Whether narrow floats are added up in f32 on a GPU, for which it has an atomic op: where many elements are added
    for each of x, such as messages to the nodes of a graph. Eager rounds each sum."""
    if on_cpu(x) or spelling_of(x) not in ("bf16", "f16"):
        return False
    return estimate(shape_of(x)) <= _WIDE_SHARE * estimate(shape_of(value))


def _called_for(x: Value, combine: str) -> str | None:
    """Why kernels cannot combine values into x this way, or None if they can. Decisions 18 and 70."""
    if on_cpu(x):
        return None
    spelling = spelling_of(x)
    if combine != "set" and atomic_of(combine, spelling) is None:
        return f"GPUs have no atomic {combine} of {spelling}"
    if torch.are_deterministic_algorithms_enabled() and (combine == "set" or types.is_float(spelling)):
        return "use_deterministic_algorithms is on, and a GPU kernel writes in no fixed order"
    return None
