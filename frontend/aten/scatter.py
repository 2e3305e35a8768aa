"""Imports writes at computed positions as `cuesta.scatter`, or as a select for each element where that is enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import indexing, pointwise, reduction
from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.fields import Marker
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.aten.pointwise import at_least_1d
from cuesta.frontend.aten.positions import index_into, write_at
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size

#: The most elements of a mask that one program counts on a GPU.
_MOST_COUNTED = 8192
#: Reduction names of scatter_reduce, index_reduce and scatter.reduce → how `cuesta.scatter` combines.
_REDUCE = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def _shaped(b: GraphBuilder, index: Value, dim: int, rank: int) -> Value:
    """The positions along `dim` of `rank` dims, so that they broadcast along the others."""
    return b.reshape(index, [math.prod(shape_of(index)) if d == dim else 1 for d in range(rank)])


# -- index_put and put ------------------------------------------------------------------------
@imports("index_put.default", "_unsafe_index_put.default")
def index_put(b: Call, x: Value, indices: Sequence[Value | None], value: Value, add: bool = False) -> Value:
    """Writing one number under a mask is a select. Writing one value for each true element of a mask stays ATen's."""
    chosen = {d: i for d, i in enumerate(indices) if i is not None}
    value = b.convert(value, spelling_of(x))
    if any(spelling_of(i) not in ("i64", "i32") for i in chosen.values()):
        (mask, *others) = indices
        if others or mask is None or spelling_of(mask) != "i1" or math.prod(shape_of(value)) != 1 or add:
            raise Decline("boolean mask: the number of positions depends on the data")
        wide = b.reshape(mask, (*shape_of(mask), *[1] * (len(shape_of(x)) - len(shape_of(mask)))))
        return b.where(wide, b.reshape(value, ()), x)
    dims = list(chosen)
    shapes = indexing.indexed_shape(shape_of(x), [shape_of(i) for i in chosen.values()], dims)
    if shapes is None:
        raise Decline("the indices are not known to broadcast together")
    whole, places, at = shapes
    given = shape_of(value)
    if len(given) > len(whole) or any(n not in (1, m) for n, m in zip(given[::-1], whole[::-1], strict=False)):
        raise Decline("the value is not known to broadcast to the indexed positions")
    value = b.expand(value, whole)
    after = [1] * (len(whole) - at - len(places))
    together = [b.reshape(b.expand(i, places), [*places, *after]) for i in chosen.values()]
    kept = iter([d for d in range(len(whole)) if not at <= d < at + len(places)])
    walks = [-1 - dims.index(d) if d in chosen else next(kept) for d in range(len(shape_of(x)))]
    flag = Scatter.in_range if b.name.startswith("_unsafe") and _made_of_numbers(b.node.args[1]) else Scatter.wraps
    return write_at(b, x, value, together, walks, "add" if add else "set", flag)


def _made_of_numbers(indices: Any) -> bool:
    """Whether the positions are independent of the data, as when torch resizes images. Other positions are checked even
    for an op called unsafe, because a write outside x would hit other memory."""
    pending, seen = [i for i in indices if i is not None], set[Node]()
    while pending:
        node = pending.pop()
        if node.op != "call_function":
            return False
        if node not in seen:
            seen.add(node)
            pending += node.all_input_nodes
    return True


@imports("put")
def put(b: Call, x: Value, index: Value, value: Value, accumulate: bool = False) -> Value:
    count, sizes = math.prod(shape_of(index)), shape_of(x)
    flat = b.reshape(x, [math.prod(sizes)])
    places, value = b.reshape(index, [count]), b.reshape(value, [count])
    return b.reshape(write_at(b, flat, value, [places], [-1], "add" if accumulate else "set", Scatter.wraps), sizes)


# -- along one dim, positions of each element -------------------------------------------------
def _along(b: GraphBuilder, x: Value, dim: int, index: Value, value: Any, combine: str) -> Value:
    """x with `value`, a tensor or a number, written along `dim` at the positions `index`, one for each element."""
    sizes = shape_of(x)
    if not sizes:
        return b.reshape(_along(b, b.reshape(x, [1]), 0, index, value, combine), ())
    index = at_least_1d(b, index)
    counts = shape_of(index)
    dim %= len(sizes)
    value = _of_shape(b, value, counts, spelling_of(x))
    indices, walks = [index], list(range(len(sizes)))
    walks[dim] = -1
    for d, count in enumerate(counts):
        if d != dim and count != sizes[d]:
            walks[d] = -1 - len(indices)
            indices.append(b.along(counts, d))
    return write_at(b, x, value, indices, walks, combine)


def _of_shape(b: GraphBuilder, value: Any, sizes: Sequence[Number], spelling: str) -> Value:
    """A tensor cut to its first elements along each dim, or a number broadcast to `sizes`."""
    if not isinstance(value, ir.Value):
        return b.constant(value, spelling, sizes)
    value = at_least_1d(b, value)
    for d, size in enumerate(sizes):
        value = b.slice(value, d, 0, size)
    return value


@imports("scatter.value", "scatter.src", "scatter.reduce", "scatter.value_reduce")
def scatter(b: Call, x: Value, dim: int, index: Value, value: Any, *, reduce: str | None = None) -> Value:
    """If each line along `dim` gets one value, as in one-hot labels, the scatter is a select for each element."""
    sizes = list(shape_of(x))
    if reduce is not None or not sizes:
        return _along(b, x, dim, index, value, "set" if reduce is None else _REDUCE[reduce])
    dim %= len(sizes)
    if list(shape_of(index)) != [1 if d == dim else n for d, n in enumerate(sizes)]:
        return _along(b, x, dim, index, value, "set")
    value = _of_shape(b, value, shape_of(index), spelling_of(x))
    return indexing.ScatterOne(x, index, value, dim, x.type).result


@imports("scatter_add")
def scatter_add(b: Call, x: Value, dim: int, index: Value, value: Value) -> Value:
    return _along(b, x, dim, index, value, "add")


@imports("scatter_reduce.two", "index_reduce")
def reduce_into(
    b: Call, x: Value, dim: int, index: Value, value: Value, reduce: str, *, include_self: bool = True
) -> Value:
    def write(into: Value, what: Any, combine: str) -> Value:
        if "index_reduce" not in b.name:
            return _along(b, into, dim, index, what, combine)
        if not isinstance(what, ir.Value):
            what = b.constant(what, spelling_of(into), shape_of(value))
        return _slices(b, into, dim, index, what, combine)

    return _reduced(b, x, value, reduce, include_self, write)


def _reduced(b: GraphBuilder, x: Value, value: Value, reduce: str, include_self: bool, write: Any) -> Value:
    """x with `value` reduced into it. `write(into, what, combine)` writes a tensor or a number at `value`'s places."""
    combine, spelling = _REDUCE[reduce], spelling_of(x)
    if not include_self:
        identity = reduction.BY_NAME[{"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[combine]].identity
        x = write(x, identity(types.element(spelling)), "set")
    total = write(x, value, combine)
    if reduce != "mean":
        return total
    counts = b.constant(1 if include_self else 0, spelling, shape_of(x))
    counts = write(counts, 1, "add")
    if not include_self:
        counts = b.pointwise("maximum", counts, b.constant(1, spelling))
    wide = types.opmath(spelling)
    divide = "div" if types.is_float(spelling) else "floor_divide"
    return b.convert(b.pointwise(divide, b.convert(total, wide), b.convert(counts, wide)), spelling)


# -- along one dim, positions of whole slices --------------------------------------------------
def _slices(
    b: GraphBuilder, x: Value, dim: int, index: Value, value: Value, combine: str, flag: Marker | None = None
) -> Value:
    """x with slices of `value` along `dim` written at the positions `index`."""
    sizes = shape_of(x)
    if not sizes:
        flat = [math.prod(shape_of(index))]
        return b.reshape(_slices(b, b.reshape(x, [1]), 0, index, b.reshape(value, flat), combine, flag), ())
    dim %= len(sizes)
    value = at_least_1d(b, value)
    places = _shaped(b, index, dim, len(sizes))
    walks = [-1 if d == dim else d for d in range(len(sizes))]
    return write_at(b, x, value, [places], walks, combine, flag)


@imports("index_add")
def index_add(b: Call, x: Value, dim: int, index: Value, value: Value, *, alpha: float = 1) -> Value:
    if alpha != 1:
        wide = types.opmath(spelling_of(x))
        value = b.convert(b.with_number("mul", b.convert(value, wide), alpha), spelling_of(x))
    return _slices(b, x, dim, index, value, "add")


@imports("index_copy")
def index_copy(b: Call, x: Value, dim: int, index: Value, value: Value) -> Value:
    return _slices(b, x, dim, index, value, "set")


@imports("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(b: Call, x: Value, dim: int, index: Value, value: Any) -> Value:
    number = b.convert(value, spelling_of(x)) if isinstance(value, ir.Value) else b.constant(value, spelling_of(x))
    count, sizes = math.prod(shape_of(index)), shape_of(x) or (1,)
    filled = [count if d == dim % len(sizes) else n for d, n in enumerate(sizes)]
    return _slices(b, x, dim, index, b.expand(number, filled), "set", Scatter.wraps)


@imports("histc")
def histc(b: Call, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    """Counts the elements in each of `bins` equal parts of [low, high]; an extra last bin takes the others."""
    spelling = spelling_of(x)
    if spelling not in ("f32", "f64"):
        raise Decline(f"histc of {spelling}: ATen counts in that dtype, in several parts")
    if not low < high:
        raise Decline("histc without a range: the range depends on the data")
    flat = b.reshape(x, [math.prod(shape_of(x))])
    inside = b.pointwise("logical_and", b.with_number("ge", flat, low), b.with_number("le", flat, high))
    part = b.with_number("mul", b.with_number("sub", flat, low), bins)
    part = b.pointwise("div", part, b.with_number("sub", b.constant(high, spelling), low))
    part = b.convert(b.where(inside, part, b.constant(0, spelling)), "i64")
    place = b.where(inside, b.with_number("minimum", part, bins - 1), b.constant(bins, "i64"))
    ones, zeros = b.constant(1, spelling, shape_of(flat)), b.constant(0, spelling, [bins + 1])
    return b.slice(write_at(b, zeros, ones, [place], [-1], "add", Scatter.in_range), 0, 0, bins)


# -- gradients ---------------------------------------------------------------------------------
@imports("embedding_dense_backward")
def embedding_dense_backward(
    b: Call, grad: Value, index: Value, rows: Number, padding: int, by_frequency: bool
) -> Value:
    if by_frequency:
        raise Decline("scale_grad_by_freq: rows are scaled by how often they are read")
    places = b.reshape(index, [*shape_of(index), 1])
    if padding >= 0:
        grad = b.where(b.with_number("eq", places, padding), b.constant(0, spelling_of(grad)), grad)
    last = len(shape_of(grad)) - 1
    zeros = b.constant(0, spelling_of(grad), [rows, shape_of(grad)[last]])
    return write_at(b, zeros, grad, [places], [-1, last], "add")


# -- under a mask ------------------------------------------------------------------------------
@imports("masked_scatter")
def masked_scatter(b: Call, x: Value, mask: Value, value: Value) -> Value:
    """A select for each element: the n-th element where the mask is true becomes the n-th element of `value`."""
    sizes = pointwise.broadcast_shape(shape_of(x), shape_of(mask))
    if sizes is None:
        raise Decline("input and mask are not known to broadcast")
    mask = b.expand(mask, sizes)
    place = b.reshape(_number_of_ones(b, mask), sizes)
    place = b.where(mask, b.with_number("sub", place, 1), b.constant(0, "i64"))
    taken = index_into(b, b.reshape(value, [math.prod(shape_of(value))]), [place], [0])
    return b.where(mask, taken, x)


@imports("masked_scatter_backward")
def masked_scatter_backward(b: Call, grad: Value, mask: Value, sizes: Sequence[Number]) -> Value:
    """The gradients where the mask is true, packed at the start, then zeros. Gradients where the mask is false are
    written to an extra last place, which is cut off."""
    count = math.prod(shape_of(grad))
    flat, end = b.reshape(b.expand(mask, shape_of(grad)), [count]), math.prod(sizes)
    place = b.with_number("minimum", b.with_number("sub", _number_of_ones(b, flat), 1), end)
    place = b.where(flat, place, b.constant(end, "i64"))
    zeros = b.constant(0, spelling_of(grad), [end + 1])
    written = write_at(b, zeros, b.reshape(grad, [count]), [place], [-1], "set", Scatter.in_range)
    return b.reshape(b.slice(written, 0, 0, end), sizes)


def _number_of_ones(b: GraphBuilder, mask: Value) -> Value:
    """The running count of true elements of the flattened mask, each element included, in one dim."""
    count = math.prod(shape_of(mask))
    if not on_cpu(mask) and (isinstance(count, Size) or count > _MOST_COUNTED):
        raise Decline(f"running sum of more than {_MOST_COUNTED} elements: too long for one GPU program")
    flat = b.convert(b.reshape(mask, [count]), "i64")
    return reduction.CumSum(flat, 0, flat.type).result
