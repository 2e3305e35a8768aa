"""Defines the ops of the tt level, Triton IR as Triton 3.6 reads it: a class and a builder for each op.

A builder makes its op at the current insertion point and location, and infers the result's type:

    func(name, argument_types, arg_attrs=(), *, grid, warps, stages) → (operation, entry block)
    return_()
    get_program_id(axis) → i32
    make_range(start, end) → tensor<Nxi32>
    constant(number, element) → scalar      full(shape, element, number) → block (a scalar for ())
    splat(value, shape)                     unsplat(block)
    expand_dims(value, axis)                broadcast(value, shape)
    reshape(value, shape, allow_reorder=False)
    trans(value, order)
    addptr(pointer, offset)
    load(pointer, mask=None, other=None)
    store(pointer, value, mask=None)
    reduce(operands, axis, combine) → [values]
    scan(operands, axis, combine, reverse=False) → [values]
    extern_elementwise(operands, result_type, symbol)
    precise_sqrt(x)    precise_divf(x, y)    bitcast(x, element)
    atomic_rmw(kind, pointer, value, mask=None) → old value
    dot(a, b, c, precision="ieee")
    split(x) → (a, b)

`combine` takes the accumulated values, then as many new values, and returns the combined values (one value or
a sequence). `other` of a load may be a number. Types come from `types.py`: pointer_type("f32"),
block_type((64, 128), "f32"). All other ops of a kernel are upstream's arith, math and scf.

To MLIR these ops are unregistered, so all attributes are in the attribute dictionary; Triton's parser moves
inherent attributes to properties by itself. `rules.py` verifies the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from cuesta._mlir import arith, ir
from cuesta.dialects.fields import OPTIONAL, Marker, Text
from cuesta.dialects.kernel_fields import GRID, STAGES, WARPS
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt.fields import (
    I32,
    AtomicOp,
    Bool,
    CacheModifier,
    Dictionaries,
    EvictionPolicy,
    I32s,
    MemoryOrder,
    MemoryScope,
    Precision,
)
from cuesta.dialects.tt.types import block_type, element, element_of, loaded_type, shape_of
from cuesta.dialects.upstream_fields import Type
from cuesta.sizes import Number

#: What a combiner of `reduce` or `scan` returns.
Combiner = Callable[..., ir.Value | Sequence[ir.Value]]


class Func(OpenOp, name="tt.func"):
    """A kernel. It has the fields GRID, WARPS and STAGES of `kernel_fields` too: symbolic numbers of programs are in
    terms of the scalars p0, p1, …, which are the arguments after the pointers."""

    sym_name: Text
    function_type: Type
    arg_attrs: Dictionaries
    sym_visibility: Annotated[Text, OPTIONAL]
    noinline: Annotated[Bool, OPTIONAL]


#: Of an argument: what its address, in bytes, or the number that it is, is a multiple of in every launch.
DIVISIBILITY = I32("tt.divisibility")


class Return(OpenOp, name="tt.return"):
    """Ends a kernel."""


class GetProgramId(OpenOp, name="tt.get_program_id"):
    """The program's number along one axis of the grid."""

    axis: I32


class MakeRange(OpenOp, name="tt.make_range"):
    """start, start + 1, …, end - 1."""

    start: I32
    end: I32


class Splat(OpenOp, name="tt.splat"):
    """A block of copies of a scalar."""


class Unsplat(OpenOp, name="tt.unsplat"):
    """The element of a block of one element."""


class ExpandDims(OpenOp, name="tt.expand_dims"):
    """Inserts a dim of size 1."""

    axis: I32


class Broadcast(OpenOp, name="tt.broadcast"):
    """Stretches dims of size 1."""


class Reshape(OpenOp, name="tt.reshape"):
    """The elements in a block of another shape."""

    #: Leaves the order of the elements to Triton.
    allow_reorder: Annotated[Marker, OPTIONAL]


class Trans(OpenOp, name="tt.trans"):
    """Permutes dims: dim i of the result is dim order[i] of the operand."""

    order: I32s


class AddPtr(OpenOp, name="tt.addptr"):
    """Moves a pointer by elements, not bytes."""


class Load(OpenOp, name="tt.load"):
    """Reads through pointers, perhaps under a mask, perhaps with a value for where the mask is false."""

    #: How many operands are pointers, masks and values for where the mask is false: 1, 0 or 1, 0 or 1.
    operandSegmentSizes: I32s
    boundaryCheck: I32s
    cache: CacheModifier
    evict: EvictionPolicy
    isVolatile: Bool


class Store(OpenOp, name="tt.store"):
    """Writes through pointers, perhaps under a mask."""

    boundaryCheck: I32s
    cache: CacheModifier
    evict: EvictionPolicy


class Reduce(OpenOp, name="tt.reduce"):
    """Combines blocks along `axis` by a region."""

    axis: I32


class ReduceReturn(OpenOp, name="tt.reduce.return"):
    """Ends the region of a reduction."""


class Scan(OpenOp, name="tt.scan"):
    """The running combination of blocks along `axis` by a region, from the end if `reverse`."""

    axis: I32
    reverse: Bool


class ScanReturn(OpenOp, name="tt.scan.return"):
    """Ends the region of a scan."""


class ExternElementwise(OpenOp, name="tt.extern_elementwise"):
    """A function of libdevice (`__nv_*`) or of ocml (`__ocml_*`), element by element."""

    libname: Text
    libpath: Text
    pure: Bool
    symbol: Text


class PreciseSqrt(OpenOp, name="tt.precise_sqrt"):
    """Rounded to nearest; the op of math may be approximate on a GPU."""


class PreciseDivF(OpenOp, name="tt.precise_divf"):
    """Rounded to nearest; the op of arith may be approximate on a GPU."""


class Bitcast(OpenOp, name="tt.bitcast"):
    """The same bits as another element type of the same width."""


class AtomicRMW(OpenOp, name="tt.atomic_rmw"):
    """Combines a value into memory, and returns the old one."""

    atomic_rmw_op: AtomicOp
    sem: MemoryOrder
    scope: MemoryScope


class Dot(OpenOp, name="tt.dot"):
    """a @ b + c."""

    inputPrecision: Precision
    maxNumImpreciseAcc: I32


class Split(OpenOp, name="tt.split"):
    """Splits a block along its last dim, of size 2."""


def func(
    name: str,
    argument_types: Sequence[ir.Type],
    arg_attrs: Sequence[Mapping[str, ir.Attribute]] = (),
    *,
    grid: tuple[Number, Number, Number] = (1, 1, 1),
    warps: int = 4,
    stages: int = 3,
) -> tuple[ir.Operation, ir.Block]:
    """A kernel and its entry block; `arg_attrs` such as [DIVISIBILITY.entry(16), {}], one for each argument."""
    op = Func.build(
        [],
        regions=1,
        sym_name=name,
        function_type=ir.FunctionType.get(list(argument_types), []),
        arg_attrs=arg_attrs or [{}] * len(argument_types),
        sym_visibility="public",
        noinline=False,
    )
    GRID.put(op, list(grid))
    WARPS.put(op, warps)
    STAGES.put(op, stages)
    return op, _block(op, argument_types)


def return_() -> None:
    Return.build([])


def get_program_id(axis: int) -> ir.Value:
    return GetProgramId.build([], [element("i32")], axis=axis).result


def make_range(start: int, end: int) -> ir.Value:
    return MakeRange.build([], [block_type((end - start,), "i32")], start=start, end=end).result


def constant(number: float, of: str | ir.Type) -> ir.Value:
    """A scalar constant (upstream's arith.constant)."""
    kind = element(of)
    return arith.ConstantOp(kind, _attribute(number, kind)).result


def full(shape: Sequence[int], of: str | ir.Type, number: float) -> ir.Value:
    """A block of equal elements (upstream's arith.constant)."""
    if not len(shape):
        return constant(number, of)
    kind = block_type(shape, of)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, _attribute(number, element(of)))).result


def splat(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A block of copies of a scalar; the scalar itself for the shape ()."""
    return Splat.build([value], [block_type(shape, value.type)]).result if len(shape) else value


def unsplat(block: ir.Value) -> ir.Value:
    return Unsplat.build([block], [element_of(block)]).result


def expand_dims(value: ir.Value, axis: int) -> ir.Value:
    shape = list(shape_of(value))
    shape.insert(axis, 1)
    return ExpandDims.build([value], [block_type(shape, element_of(value))], axis=axis).result


def broadcast(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Broadcasts dims of size 1 to `shape`; the value itself if it has that shape."""
    if shape_of(value) == tuple(shape):
        return value
    return Broadcast.build([value], [block_type(shape, element_of(value))]).result


def reshape(value: ir.Value, shape: Sequence[int], allow_reorder: bool = False) -> ir.Value:
    """The elements in a block of another shape; the value itself if it has that shape."""
    if shape_of(value) == tuple(shape):
        return value
    return Reshape.build([value], [block_type(shape, element_of(value))], allow_reorder=allow_reorder or None).result


def trans(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Dim i of the result is dim order[i] of the operand."""
    shape = shape_of(value)
    kind = block_type([shape[d] for d in order], element_of(value))
    return Trans.build([value], [kind], order=order).result


def addptr(pointer: ir.Value, offset: ir.Value) -> ir.Value:
    """`pointer` moved by `offset` elements; both scalars or blocks of one shape."""
    return AddPtr.build([pointer, offset], [pointer.type]).result


def load(pointer: ir.Value, mask: ir.Value | None = None, other: ir.Value | float | None = None) -> ir.Value:
    """Loads through `pointer`. Where `mask` is false, the result is `other`, or undefined without `other`."""
    kind = loaded_type(pointer)
    if isinstance(other, (int, float)):
        other = full(shape_of(kind), element_of(kind), other)
    given = [x for x in (pointer, mask, other) if x is not None]
    return Load.build(
        given,
        [kind],
        operandSegmentSizes=[1, int(mask is not None), int(other is not None)],
        boundaryCheck=[],
        cache="none",
        evict="normal",
        isVolatile=False,
    ).result


def store(pointer: ir.Value, value: ir.Value, mask: ir.Value | None = None) -> None:
    """Writes `value` where `mask` is true, or everywhere."""
    given = [pointer, value] if mask is None else [pointer, value, mask]
    Store.build(given, boundaryCheck=[], cache="none", evict="normal")


def reduce(operands: Sequence[ir.Value], axis: int, combine: Combiner) -> list[ir.Value]:
    """`operands`, blocks of one shape, combined along `axis`, which is removed; 1-d blocks give scalars."""
    shape = list(shape_of(operands[0]))
    del shape[axis]
    kinds = [block_type(shape, element_of(x)) for x in operands]
    op = _with_combiner(Reduce, ReduceReturn, operands, kinds, combine, axis=axis)
    return list(op.results)


def scan(operands: Sequence[ir.Value], axis: int, combine: Combiner, reverse: bool = False) -> list[ir.Value]:
    """The running combination of `operands` along `axis`, each element included; from the end if `reverse`."""
    kinds = [x.type for x in operands]
    op = _with_combiner(Scan, ScanReturn, operands, kinds, combine, axis=axis, reverse=reverse)
    return list(op.results)


def extern_elementwise(operands: Sequence[ir.Value], result_type: ir.Type, symbol: str) -> ir.Value:
    """`symbol` (such as __nv_tanhf) of the device library that Triton links on its own."""
    return ExternElementwise.build(operands, [result_type], libname="", libpath="", pure=True, symbol=symbol).result


def precise_sqrt(x: ir.Value) -> ir.Value:
    return PreciseSqrt.build([x], [x.type]).result


def precise_divf(x: ir.Value, y: ir.Value) -> ir.Value:
    return PreciseDivF.build([x, y], [x.type]).result


def bitcast(x: ir.Value, to: str | ir.Type) -> ir.Value:
    """The same bits as another element type of the same width."""
    return Bitcast.build([x], [block_type(shape_of(x), to)]).result


def atomic_rmw(kind: str, pointer: ir.Value, value: ir.Value, mask: ir.Value | None = None) -> ir.Value:
    """Combines `value` into memory, in any order, and returns the old value. `kind`: a word of `AtomicOp`."""
    given = [pointer, value] if mask is None else [pointer, value, mask]
    return AtomicRMW.build(given, [value.type], atomic_rmw_op=kind, sem="relaxed", scope="gpu").result


def dot(a: ir.Value, b: ir.Value, c: ir.Value, precision: str = "ieee") -> ir.Value:
    """a @ b + c in the type of `c`. `precision`, of f32 operands: a word of `Precision`."""
    return Dot.build([a, b, c], [c.type], inputPrecision=precision, maxNumImpreciseAcc=0).result


def split(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    kind = block_type(shape_of(x)[:-1], element_of(x))
    first, second = Split.build([x], [kind, kind]).results
    return first, second


def _attribute(number: float, kind: ir.Type) -> ir.Attribute:
    if isinstance(kind, ir.FloatType):
        return ir.FloatAttr.get(kind, float(number))
    return ir.IntegerAttr.get(kind, int(number))


def _block(op: ir.Operation, argument_types: Sequence[ir.Type]) -> ir.Block:
    return op.regions[0].blocks.append(*argument_types, arg_locs=[op.location] * len(argument_types))


def _with_combiner(
    kind: type[OpenOp],
    end: type[OpenOp],
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    combine: Combiner,
    **attributes: Any,
) -> ir.Operation:
    op = kind.build(operands, results, regions=1, **attributes)
    scalars = [element_of(x) for x in operands]
    block = _block(op, [*scalars, *scalars])
    with ir.InsertionPoint(block):
        combined = combine(*block.arguments)
        end.build([combined] if isinstance(combined, ir.Value) else list(combined))
    return op
