"""Defines shape ops. ATen's many views are five ops here, which only change indices and do no work:
`reshape`, `permute`, `expand`, `slice`, `unfold`. `cat` and `flip` move data.
"""

import math
from typing import Any, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operation, ints, numbers, reference, verifier
from cuesta.errors import Undecided
from cuesta.sizes import Number, Size

Tensors: TypeAlias = list[torch.Tensor]


class Reshape(Operation, name="reshape", traits=[ext.Pure]):
    """The same elements in row-major order under the result's shape."""

    x: ext.Operand[Any]
    result: ext.Result[Any]


class Permute(Operation, name="permute", traits=[ext.Pure]):
    """Result dim i is operand dim `dims[i]`."""

    x: ext.Operand[Any]
    dims: ir.ArrayAttr
    result: ext.Result[Any]


class Expand(Operation, name="expand", traits=[ext.Pure]):
    """Broadcasts to the result's shape: adds leading dims, and repeats dims of size 1."""

    x: ext.Operand[Any]
    result: ext.Result[Any]


class Slice(Operation, name="slice", traits=[ext.Pure]):
    """`x[starts[0] : … : steps[0], …]`: one start and step for each dim; the sizes are those of the result."""

    x: ext.Operand[Any]
    starts: ir.ArrayAttr
    steps: ir.ArrayAttr
    result: ext.Result[Any]


class Unfold(Operation, name="unfold", traits=[ext.Pure]):
    """`result[…, i, …, k] = x[…, i * step + k, …]` along `dim`: windows, which may overlap; k is a new last dim."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    step: ir.IntegerAttr
    result: ext.Result[Any]


class Cat(Operation, name="cat", traits=[ext.Pure]):
    """x, then y, along `dim`. More operands are a chain of these."""

    x: ext.Operand[Any]
    y: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class Flip(Operation, name="flip", traits=[ext.Pure]):
    """Reverses `dims`."""

    x: ext.Operand[Any]
    dims: ir.ArrayAttr
    result: ext.Result[Any]


class Copy(Operation, name="copy", traits=[ext.Pure]):
    """The same tensor in new memory, with `strides`."""

    x: ext.Operand[Any]
    strides: ir.ArrayAttr
    result: ext.Result[Any]


class Constant(Operation, name="constant", traits=[ext.Pure]):
    """A tensor filled with one number: `value` is a float or integer attribute."""

    value: ir.FloatAttr | ir.IntegerAttr
    result: ext.Result[Any]


class Extent(Operation, name="extent", traits=[ext.Pure]):
    """A tensor filled with a symbolic size: `at` names the size, as in `64*s0`."""

    at: ir.StringAttr
    result: ext.Result[Any]


class Iota(Operation, name="iota", traits=[ext.Pure]):
    """`start + i * step` in a vector of the result's length and type."""

    start: ir.FloatAttr | ir.IntegerAttr
    step: ir.FloatAttr | ir.IntegerAttr
    result: ext.Result[Any]


class SizeOp(Operation, name="size", traits=[ext.Pure]):
    """A symbolic size as an index: `at` names the size, as in `64*s0`."""

    at: ir.StringAttr
    result: ext.Result[Any]


def _result_shape(op: ir.Operation) -> tuple[Number, ...]:
    return types.shape_of(op.results[0])


def _static_result_shape(op: ir.Operation) -> tuple[int, ...]:
    return types.static_shape(op.results[0])


def slice_index(op: ir.Operation) -> tuple[slice, ...]:
    """The Python slices that a `cuesta.slice` stands for."""
    sizes = _static_result_shape(op)
    starts, steps = ints(op.attributes["starts"]), ints(op.attributes["steps"])
    return tuple(slice(b, b + n * s, s) for b, n, s in zip(starts, sizes, steps, strict=True))


@reference("reshape")
def _reshape(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].reshape(_static_result_shape(op))


@reference("permute")
def _permute(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].permute(ints(op.attributes["dims"]))


@reference("expand")
def _expand(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].expand(_static_result_shape(op))


@reference("slice")
def _slice(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0][slice_index(op)] if _result_shape(op) else xs[0]


@reference("unfold")
def _unfold(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    dim, sizes = op.attributes["dim"].value, _static_result_shape(op)
    return xs[0].unfold(dim, sizes[-1], op.attributes["step"].value).narrow(dim, 0, sizes[dim])


@reference("cat")
def _cat(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return torch.cat(xs, op.attributes["dim"].value)


@reference("flip")
def _flip(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].flip(ints(op.attributes["dims"]))


@reference("copy")
def _copy(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    strides = ints(op.attributes["strides"])
    return torch.empty_strided(tuple(xs[0].shape), strides, dtype=xs[0].dtype).copy_(xs[0])


@reference("constant")
def _constant(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    dtype = types.torch_dtype(types.spelling_of(op.results[0]))
    # Through the widest type: a number that the narrow type cannot hold wraps or becomes infinite.
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    return torch.full(_static_result_shape(op), op.attributes["value"].value, dtype=wide).to(dtype)


@reference("size")
@reference("extent")
def _symbolic(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    raise Undecided(f"the reference needs numbers, but {op.attributes['at'].value} depends on the call")


@reference("iota")
def _iota(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    (n,) = _static_result_shape(op)
    start, step = op.attributes["start"].value, op.attributes["step"].value
    dtype = types.torch_dtype(types.spelling_of(op.results[0]))
    return (start + torch.arange(n, dtype=dtype) * step).to(dtype)


def _verify_element_type(op: ir.Operation) -> str | None:
    kinds = [types.spelling_of(v) for v in (*op.operands, op.results[0])]
    return None if len(set(kinds)) == 1 else f"keeps the element type, but goes from {kinds[0]} to {kinds[-1]}"


@verifier("reshape")
def _verify_reshape(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    if math.prod(source) != math.prod(target):
        return f"cannot reshape {list(source)} ({math.prod(source)} elements) to {list(target)} ({math.prod(target)})"
    return None


@verifier("permute")
def _verify_permute(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    dims, source = ints(op.attributes["dims"]), types.shape_of(op.operands[0])
    if sorted(dims) != list(range(len(source))):
        return f"dims {dims} are not a permutation of 0..{len(source) - 1}"
    expected = [source[d] for d in dims]
    return None if tuple(expected) == _result_shape(op) else f"permutes to {expected}, not {list(_result_shape(op))}"


@verifier("expand")
def _verify_expand(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    padded = (1,) * (len(target) - len(source)) + source
    if len(source) > len(target) or any(a not in (1, b) for a, b in zip(padded, target, strict=True)):
        return f"{list(source)} does not expand to {list(target)}"
    return None


@verifier("slice")
def _verify_slice(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    starts, steps = numbers(op.attributes["starts"]), ints(op.attributes["steps"])
    if not len(source) == len(target) == len(starts) == len(steps):
        return f"starts, steps and result need {len(source)} entries, as the operand has dims"
    for d, (size, start, count, step) in enumerate(zip(source, starts, target, steps, strict=True)):
        if any(isinstance(n, Size) for n in (size, start, count)):
            continue
        if step < 1 or start < 0 or (count and start + (count - 1) * step >= size):
            return f"dim {d}: start {start}, step {step}, {count} elements leave [0, {size})"
    return None


@verifier("unfold")
def _verify_unfold(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    dim, step = op.attributes["dim"].value, op.attributes["step"].value
    if len(target) != len(source) + 1 or not 0 <= dim < len(source) or step < 1:
        return f"dim {dim} of {list(source)} in steps of {step} does not unfold to {list(target)}"
    kept = [(a, b) for d, (a, b) in enumerate(zip(source, target[:-1], strict=True)) if d != dim]
    if any(a != b for a, b in kept):
        return f"{list(source)} unfolds along dim {dim} only, which does not give {list(target)}"
    size, count, width = source[dim], target[dim], target[-1]
    known = isinstance(size, int) and isinstance(count, int) and isinstance(width, int)
    if known and count and (count - 1) * step + width > size:
        return f"{count} windows of {width}, {step} apart, leave [0, {size})"
    return None


@verifier("cat")
def _verify_cat(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    dim, target = op.attributes["dim"].value, _result_shape(op)
    if not 0 <= dim < len(target):
        return f"dim {dim} is outside [0, {len(target)})"
    shapes = [types.shape_of(x) for x in op.operands]
    for shape in shapes:
        if len(shape) != len(target) or any(
            a != b for d, (a, b) in enumerate(zip(shape, target, strict=True)) if d != dim
        ):
            return f"operand {list(shape)} does not fit {list(target)} outside dim {dim}"
    total = sum(shape[dim] for shape in shapes)
    return None if total == target[dim] else f"sizes along dim {dim} add to {total}, the result has {target[dim]}"


@verifier("flip")
def _verify_flip(op: ir.Operation) -> str | None:
    dims, shape = ints(op.attributes["dims"]), types.shape_of(op.operands[0])
    if len(set(dims)) != len(dims) or any(not 0 <= d < len(shape) for d in dims):
        return f"dims {dims} must be distinct and within [0, {len(shape)})"
    return None if op.operands[0].type == op.results[0].type else "the result must have the operand's type"


@verifier("copy")
def _verify_copy(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    if len(numbers(op.attributes["strides"])) != rank:
        return f"strides need {rank} entries, as the operand has dims"
    return None if op.operands[0].type == op.results[0].type else "the result must have the operand's type"


@verifier("iota")
def _verify_iota(op: ir.Operation) -> str | None:
    rank = len(_result_shape(op))
    return None if rank == 1 else f"gives a vector, not a tensor of {rank} dims"
