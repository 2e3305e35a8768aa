"""Defines ops that read at computed positions. Indices are integers."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.cuesta.pointwise import broadcast_shape
from cuesta.dialects.fields import OPTIONAL, Float, Int, Ints, Marker
from cuesta.sizes import Number

Tensors: TypeAlias = list[torch.Tensor]
Shape: TypeAlias = tuple[Number, ...]


class CheckedRead(Operation):
    """A read that raises IndexError when the graph runs if an index is outside [-size, size)."""

    #: Negative indices do not count from the end: they are out of range.
    from_zero: Annotated[Marker, OPTIONAL]


class Index(CheckedRead, name="index", traits=[ext.Pure]):
    """x at positions: `dims[i]` of x is indexed by operand `indices[i]`, all of one shape and type.

    As in numpy, the indices' shape takes the place of the indexed dims, or comes first if these are not adjacent:
    `aten.index`, `aten.embedding` and `aten.index_select` are this op.
    """

    x: Operand
    indices: Sequence[Operand]
    dims: Ints
    #: Promises that all indices are within [0, size), and nothing checks them.
    in_range: Annotated[Marker, OPTIONAL]
    result: Result


class Gather(CheckedRead, name="gather", traits=[ext.Pure]):
    """result[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and so on; index has the result's shape."""

    x: Operand
    index: Operand
    dim: Int
    result: Result


class Window(Operation, name="window", traits=[ext.Pure]):
    """result[i] = x[(start + i * step) // divisor] in each dim, or the number `outside` if x has no such element.

    Reads a pool's windows, with one op for each place in the window, and images with repeated pixels. Beyond the ends
    of the dims `repeated`, x has its first and last elements again.
    """

    x: Operand
    starts: Ints
    steps: Ints
    divisors: Ints
    outside: Float
    repeated: Annotated[Ints, OPTIONAL]
    result: Result


class ScatterOne(Operation, name="scatter_one", traits=[ext.Pure]):
    """x with one element along `dim` replaced in each line: result[i][index[i][0]] = value[i][0] for dim 1.

    index and value have x's shape, but 1 along `dim`. An index outside [0, size) raises when the graph runs.
    """

    x: Operand
    index: Operand
    value: Operand
    dim: Int
    result: Result


def _wrap(index: torch.Tensor, size: int) -> torch.Tensor:
    return torch.where(index < 0, index + size, index)


@reference(Index)
def _index(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    by_dim = dict(zip(Index.dims.of(op), xs[1:], strict=True))
    result: torch.Tensor = torch.ops.aten.index(xs[0], [by_dim.get(d) for d in range(max(by_dim) + 1)])
    return result


@reference(Gather)
def _gather(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    dim = Gather.dim.of(op)
    return xs[0].gather(dim, _wrap(xs[1], xs[0].shape[dim]).long())


@reference(ScatterOne)
def _scatter_one(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    x, index, value = xs
    return x.scatter(ScatterOne.dim.of(op), index.long(), value)


@reference(Window)
def _window(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    (x,) = xs
    columns = (Window.starts.of(op), Window.steps.of(op), Window.divisors.of(op))
    inside = torch.ones(())
    for d, (size, start, step, divisor) in enumerate(zip(types.static_shape(op.results[0]), *columns, strict=True)):
        at = torch.div(start + torch.arange(size) * step, divisor, rounding_mode="floor")
        within = ((at >= 0) & (at < x.shape[d])) | torch.tensor(d in (Window.repeated.find(op) or ()))
        inside = inside.bool() & within.reshape([-1 if i == d else 1 for i in range(x.dim())])
        x = x.index_select(d, at.clamp(0, x.shape[d] - 1))
    number = Window.outside.of(op)
    return torch.where(inside, x, torch.tensor(number if x.is_floating_point() else int(number), dtype=x.dtype))


def indexed_shape(x: Shape, indices: Sequence[Shape], dims: list[int]) -> tuple[Shape, Shape, int] | None:
    """(result shape, the indices' broadcast shape, the latter's first dim in the result); None if they do not fit."""
    broadcast = broadcast_shape(*indices)
    if broadcast is None:
        return None
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    kept = [size for d, size in enumerate(x) if d not in dims]
    at = dims[0] if adjacent else 0
    return (*kept[:at], *broadcast, *kept[at:]), broadcast, at


@verifier(Index)
def _verify_index(op: ir.Operation) -> str | None:
    x, *indices = (types.shape_of(v) for v in op.operands)
    dims = Index.dims.of(op)
    if len(dims) != len(indices) or not dims or sorted(set(dims)) != dims or not 0 <= dims[0] <= dims[-1] < len(x):
        return f"dims {dims} must rise within [0, {len(x)}), one for each of {len(indices)} indices"
    shapes = indexed_shape(x, indices, dims)
    if shapes is None:
        return f"the indices {[list(i) for i in indices]} do not broadcast together"
    actual = types.shape_of(op.results[0])
    return None if shapes[0] == actual else f"selects {list(shapes[0])}, but the result is {list(actual)}"


@verifier(ScatterOne)
def _verify_scatter_one(op: ir.Operation) -> str | None:
    shape, dim = types.shape_of(op.operands[0]), ScatterOne.dim.of(op)
    if not 0 <= dim < len(shape):
        return f"dim {dim} is outside [0, {len(shape)})"
    expected = tuple(1 if d == dim else size for d, size in enumerate(shape))
    wrong = [list(types.shape_of(v)) for v in list(op.operands)[1:] if types.shape_of(v) != expected]
    if wrong:
        return f"index and value must be {list(expected)}, not {wrong[0]}"
    return None if op.operands[0].type == op.results[0].type else "the result must have the operand's type"


@verifier(Window)
def _verify_window(op: ir.Operation) -> str | None:
    x, result = types.shape_of(op.operands[0]), types.shape_of(op.results[0])
    divisors = Window.divisors.of(op)
    if {len(result), len(Window.starts.of(op)), len(Window.steps.of(op)), len(divisors)} != {len(x)}:
        return f"starts, steps, divisors and result need {len(x)} entries, as the operand has dims"
    if any(divisor < 1 for divisor in divisors):
        return f"divisors {divisors} must be positive"
    repeated = Window.repeated.find(op) or []
    if any(not 0 <= d < len(x) for d in repeated):
        return f"repeated dims {repeated} are outside [0, {len(x)})"
    if types.spelling_of(op.operands[0]) != types.spelling_of(op.results[0]):
        return f"keeps the element type {types.spelling_of(op.operands[0])}"
    return None


@verifier(Gather)
def _verify_gather(op: ir.Operation) -> str | None:
    x, index, dim = types.shape_of(op.operands[0]), types.shape_of(op.operands[1]), Gather.dim.of(op)
    if not 0 <= dim < max(len(x), 1):
        return f"dim {dim} is outside [0, {len(x)})"
    if index != types.shape_of(op.results[0]):
        return f"the index is {list(index)}, but the result is {list(types.shape_of(op.results[0]))}"
    if any(
        isinstance(i, int) and isinstance(s, int) and i > s
        for d, (i, s) in enumerate(zip(index, x, strict=True))
        if d != dim
    ):
        return f"the index {list(index)} is larger than {list(x)} outside dim {dim}"
    return None
