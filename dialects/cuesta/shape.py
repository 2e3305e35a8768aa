"""Defines ops that rearrange or create elements: views, cat, flip, constants, ranges.

ATen's many views are five ops here, which only change indices and do no work:
`reshape`, `permute`, `expand`, `slice`, `unfold`. `cat` and `flip` move data.
"""

import math
from typing import Annotated, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import OPTIONAL, Int, Ints, Marker, Numbers, Scalar, Text
from cuesta.errors import Undecided
from cuesta.sizes import Number, Size

Tensors: TypeAlias = list[torch.Tensor]


class Reshape(Operation, name="reshape", traits=[ext.Pure]):
    """The same elements in row-major order under the result's shape."""

    x: Operand
    result: Result


class Permute(Operation, name="permute", traits=[ext.Pure]):
    """Result dim i is operand dim `dims[i]`."""

    x: Operand
    dims: Ints
    #: The result is written to memory, in the order of its dims. Otherwise it is a view.
    written: Annotated[Marker, OPTIONAL]
    result: Result


class Expand(Operation, name="expand", traits=[ext.Pure]):
    """Broadcasts to the result's shape: adds leading dims, and repeats dims of size 1."""

    x: Operand
    result: Result


class Slice(Operation, name="slice", traits=[ext.Pure]):
    """`x[starts[0] : … : steps[0], …]`: one start and step for each dim; the sizes are those of the result."""

    x: Operand
    starts: Numbers
    steps: Ints
    result: Result


class Unfold(Operation, name="unfold", traits=[ext.Pure]):
    """`result[…, i, …, k] = x[…, i * step + k, …]` along `dim`: windows, which may overlap; k is a new last dim."""

    x: Operand
    dim: Int
    step: Int
    result: Result


class Cat(Operation, name="cat", traits=[ext.Pure]):
    """x, then y, along `dim`. More operands are a chain of these."""

    x: Operand
    y: Operand
    dim: Int
    result: Result


class Flip(Operation, name="flip", traits=[ext.Pure]):
    """Reverses `dims`."""

    x: Operand
    dims: Ints
    result: Result


class Copy(Operation, name="copy", traits=[ext.Pure]):
    """The same tensor in new memory, with `strides`."""

    x: Operand
    strides: Numbers
    result: Result


class Constant(Operation, name="constant", traits=[ext.Pure]):
    """A tensor filled with one number: `value` is a float or integer attribute."""

    value: Scalar
    result: Result


class Extent(Operation, name="extent", traits=[ext.Pure]):
    """A tensor filled with a symbolic size: `at` names the size, as in `64*s0`."""

    at: Text
    result: Result


class Iota(Operation, name="iota", traits=[ext.Pure]):
    """`start + i * step` in a vector of the result's length and type."""

    start: Scalar
    step: Scalar
    result: Result


class SizeOp(Operation, name="size", traits=[ext.Pure]):
    """A symbolic size as an index: `at` names the size, as in `64*s0`."""

    at: Text
    result: Result


def _result_shape(op: ir.Operation) -> tuple[Number, ...]:
    return types.shape_of(op.results[0])


def _static_result_shape(op: ir.Operation) -> tuple[int, ...]:
    return types.static_shape(op.results[0])


def slice_index(op: ir.Operation) -> tuple[slice, ...]:
    """The Python slices that a `cuesta.slice` stands for."""
    sizes = _static_result_shape(op)
    starts, steps = Slice.starts.known(op), Slice.steps.of(op)
    return tuple(slice(b, b + n * s, s) for b, n, s in zip(starts, sizes, steps, strict=True))


@reference(Reshape)
def _reshape(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].reshape(_static_result_shape(op))


@reference(Permute)
def _permute(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].permute(Permute.dims.of(op))


@reference(Expand)
def _expand(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].expand(_static_result_shape(op))


@reference(Slice)
def _slice(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0][slice_index(op)] if _result_shape(op) else xs[0]


@reference(Unfold)
def _unfold(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    dim, sizes = Unfold.dim.of(op), _static_result_shape(op)
    return xs[0].unfold(dim, sizes[-1], Unfold.step.of(op)).narrow(dim, 0, sizes[dim])


@reference(Cat)
def _cat(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return torch.cat(xs, Cat.dim.of(op))


@reference(Flip)
def _flip(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return xs[0].flip(Flip.dims.of(op))


@reference(Copy)
def _copy(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    strides = Copy.strides.known(op)
    return torch.empty_strided(tuple(xs[0].shape), strides, dtype=xs[0].dtype).copy_(xs[0])


@reference(Constant)
def _constant(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    dtype = types.torch_dtype(types.spelling_of(op.results[0]))
    # Through the widest type: a number that the narrow type cannot hold wraps or becomes infinite.
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    return torch.full(_static_result_shape(op), Constant.value.of(op), dtype=wide).to(dtype)


@reference(SizeOp)
@reference(Extent)
def _symbolic(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    raise Undecided(f"the reference needs numbers, but {Extent.at.of(op)} depends on the call")


@reference(Iota)
def _iota(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    (n,) = _static_result_shape(op)
    start, step = Iota.start.of(op), Iota.step.of(op)
    dtype = types.torch_dtype(types.spelling_of(op.results[0]))
    return (start + torch.arange(n, dtype=dtype) * step).to(dtype)


def _verify_element_type(op: ir.Operation) -> str | None:
    kinds = [types.spelling_of(v) for v in (*op.operands, op.results[0])]
    return None if len(set(kinds)) == 1 else f"keeps the element type, but goes from {kinds[0]} to {kinds[-1]}"


@verifier(Reshape)
def _verify_reshape(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    if math.prod(source) != math.prod(target):
        return f"cannot reshape {list(source)} ({math.prod(source)} elements) to {list(target)} ({math.prod(target)})"
    return None


@verifier(Permute)
def _verify_permute(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    dims, source = Permute.dims.of(op), types.shape_of(op.operands[0])
    if sorted(dims) != list(range(len(source))):
        return f"dims {dims} are not a permutation of 0..{len(source) - 1}"
    expected = [source[d] for d in dims]
    return None if tuple(expected) == _result_shape(op) else f"permutes to {expected}, not {list(_result_shape(op))}"


@verifier(Expand)
def _verify_expand(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    padded = (1,) * (len(target) - len(source)) + source
    if len(source) > len(target) or any(a not in (1, b) for a, b in zip(padded, target, strict=True)):
        return f"{list(source)} does not expand to {list(target)}"
    return None


@verifier(Slice)
def _verify_slice(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    starts, steps = Slice.starts.of(op), Slice.steps.of(op)
    if not len(source) == len(target) == len(starts) == len(steps):
        return f"starts, steps and result need {len(source)} entries, as the operand has dims"
    for d, (size, start, count, step) in enumerate(zip(source, starts, target, steps, strict=True)):
        if any(isinstance(n, Size) for n in (size, start, count)):
            continue
        if step < 1 or start < 0 or (count and start + (count - 1) * step >= size):
            return f"dim {d}: start {start}, step {step}, {count} elements leave [0, {size})"
    return None


@verifier(Unfold)
def _verify_unfold(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    source, target = types.shape_of(op.operands[0]), _result_shape(op)
    dim, step = Unfold.dim.of(op), Unfold.step.of(op)
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


@verifier(Cat)
def _verify_cat(op: ir.Operation) -> str | None:
    if wrong := _verify_element_type(op):
        return wrong
    dim, target = Cat.dim.of(op), _result_shape(op)
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


@verifier(Flip)
def _verify_flip(op: ir.Operation) -> str | None:
    dims, shape = Flip.dims.of(op), types.shape_of(op.operands[0])
    if len(set(dims)) != len(dims) or any(not 0 <= d < len(shape) for d in dims):
        return f"dims {dims} must be distinct and within [0, {len(shape)})"
    return None if op.operands[0].type == op.results[0].type else "the result must have the operand's type"


@verifier(Copy)
def _verify_copy(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    if len(Copy.strides.of(op)) != rank:
        return f"strides need {rank} entries, as the operand has dims"
    return None if op.operands[0].type == op.results[0].type else "the result must have the operand's type"


@verifier(Iota)
def _verify_iota(op: ir.Operation) -> str | None:
    rank = len(_result_shape(op))
    return None if rank == 1 else f"gives a vector, not a tensor of {rank} dims"
