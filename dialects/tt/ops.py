"""Defines the ops of the tt level, Triton IR as Triton 3.6 reads it: a row and a builder for each op.

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

from collections.abc import Callable, Sequence

from cuesta._mlir import arith, ir
from cuesta.dialects.fields import int_array, int_attr
from cuesta.dialects.open_op import OldOpenOp as OpenOp
from cuesta.dialects.tt.types import block_type, element, element_of, loaded_type, shape_of
from cuesta.sizes import Number

#: What a combiner of `reduce` or `scan` returns.
Combiner = Callable[..., ir.Value | Sequence[ir.Value]]

CACHE = {"none": 1, "ca": 2, "cg": 3, "wb": 4, "cs": 5, "wt": 6, "cv": 7}
EVICT = {"normal": 1, "first": 2, "last": 3}
ATOMIC = {"and": 1, "or": 2, "xor": 3, "add": 4, "fadd": 5, "max": 6, "min": 7, "umax": 8, "umin": 9, "exch": 10}
SEM = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}
SCOPE = {"gpu": 1, "cta": 2, "sys": 3}
PRECISION = {"tf32": 0, "tf32x3": 1, "ieee": 2}

_INTEGER, _BOOL, _TEXT = ir.IntegerAttr, ir.BoolAttr, ir.StringAttr

#: A kernel. `cuesta.grid` is the number of programs along x, y and z: text if it depends on the scalars p0, p1, …,
#: which are the arguments after the pointers.
FUNC = OpenOp("tt.func", {"sym_name": _TEXT, "function_type": ir.TypeAttr, "arg_attrs": ir.ArrayAttr})
RETURN = OpenOp("tt.return")
GET_PROGRAM_ID = OpenOp("tt.get_program_id", {"axis": _INTEGER})
#: start, start + 1, …, end - 1.
MAKE_RANGE = OpenOp("tt.make_range", {"start": _INTEGER, "end": _INTEGER})
SPLAT = OpenOp("tt.splat")
#: The element of a block of one element.
UNSPLAT = OpenOp("tt.unsplat")
EXPAND_DIMS = OpenOp("tt.expand_dims", {"axis": _INTEGER})
BROADCAST = OpenOp("tt.broadcast")
#: `allow_reorder` (a unit attribute) leaves the order of the elements to Triton.
RESHAPE = OpenOp("tt.reshape")
TRANS = OpenOp("tt.trans", {"order": ir.DenseI32ArrayAttr})
#: Moves a pointer by elements, not bytes.
ADDPTR = OpenOp("tt.addptr")
LOAD = OpenOp(
    "tt.load",
    {
        "operandSegmentSizes": ir.DenseI32ArrayAttr,
        "boundaryCheck": ir.DenseI32ArrayAttr,
        "cache": _INTEGER,
        "evict": _INTEGER,
        "isVolatile": _BOOL,
    },
)
STORE = OpenOp("tt.store", {"boundaryCheck": ir.DenseI32ArrayAttr, "cache": _INTEGER, "evict": _INTEGER})
REDUCE = OpenOp("tt.reduce", {"axis": _INTEGER})
REDUCE_RETURN = OpenOp("tt.reduce.return")
SCAN = OpenOp("tt.scan", {"axis": _INTEGER, "reverse": _BOOL})
SCAN_RETURN = OpenOp("tt.scan.return")
#: A function of libdevice (`__nv_*`) or of ocml (`__ocml_*`), element by element.
EXTERN_ELEMENTWISE = OpenOp(
    "tt.extern_elementwise", {"libname": _TEXT, "libpath": _TEXT, "pure": _BOOL, "symbol": _TEXT}
)
#: Rounded to nearest; the ops of arith and math may be approximate on a GPU.
PRECISE_SQRT = OpenOp("tt.precise_sqrt")
PRECISE_DIVF = OpenOp("tt.precise_divf")
BITCAST = OpenOp("tt.bitcast")
ATOMIC_RMW = OpenOp("tt.atomic_rmw", {"atomic_rmw_op": _INTEGER, "sem": _INTEGER, "scope": _INTEGER})
DOT = OpenOp("tt.dot", {"inputPrecision": _INTEGER, "maxNumImpreciseAcc": _INTEGER})
#: Splits a block along its last dim, of size 2.
SPLIT = OpenOp("tt.split")


def func(
    name: str,
    argument_types: Sequence[ir.Type],
    arg_attrs: Sequence[dict[str, int]] = (),
    *,
    grid: tuple[Number, Number, Number] = (1, 1, 1),
    warps: int = 4,
    stages: int = 3,
) -> tuple[ir.Operation, ir.Block]:
    """A kernel and its entry block; `arg_attrs` such as [{"tt.divisibility": 16}, {}], one for each argument."""
    attrs = [ir.DictAttr.get({k: _i32(v) for k, v in a.items()}) for a in arg_attrs or [{}] * len(argument_types)]
    op = ir.Operation.create(
        FUNC.name,
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(argument_types), [])),
            "sym_visibility": ir.StringAttr.get("public"),
            "noinline": ir.BoolAttr.get(False),
            "arg_attrs": ir.ArrayAttr.get(attrs),
            "cuesta.grid": int_array(grid),
            "cuesta.warps": int_attr(warps),
            "cuesta.stages": int_attr(stages),
        },
    )
    return op, _block(op, argument_types)


def return_() -> None:
    RETURN([], [])


def get_program_id(axis: int) -> ir.Value:
    return GET_PROGRAM_ID([], [element("i32")], axis=_i32(axis)).result


def make_range(start: int, end: int) -> ir.Value:
    return MAKE_RANGE([], [block_type((end - start,), "i32")], start=_i32(start), end=_i32(end)).result


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
    return SPLAT([value], [block_type(shape, value.type)]).result if len(shape) else value


def unsplat(block: ir.Value) -> ir.Value:
    return UNSPLAT([block], [element_of(block)]).result


def expand_dims(value: ir.Value, axis: int) -> ir.Value:
    shape = list(shape_of(value))
    shape.insert(axis, 1)
    return EXPAND_DIMS([value], [block_type(shape, element_of(value))], axis=_i32(axis)).result


def broadcast(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Broadcasts dims of size 1 to `shape`; the value itself if it has that shape."""
    if shape_of(value) == tuple(shape):
        return value
    return BROADCAST([value], [block_type(shape, element_of(value))]).result


def reshape(value: ir.Value, shape: Sequence[int], allow_reorder: bool = False) -> ir.Value:
    """The elements in a block of another shape; the value itself if it has that shape."""
    if shape_of(value) == tuple(shape):
        return value
    attributes = {"allow_reorder": ir.UnitAttr.get()} if allow_reorder else {}
    return RESHAPE([value], [block_type(shape, element_of(value))], **attributes).result


def trans(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Dim i of the result is dim order[i] of the operand."""
    shape = shape_of(value)
    kind = block_type([shape[d] for d in order], element_of(value))
    return TRANS([value], [kind], order=ir.DenseI32ArrayAttr.get(list(order))).result


def addptr(pointer: ir.Value, offset: ir.Value) -> ir.Value:
    """`pointer` moved by `offset` elements; both scalars or blocks of one shape."""
    return ADDPTR([pointer, offset], [pointer.type]).result


def load(pointer: ir.Value, mask: ir.Value | None = None, other: ir.Value | float | None = None) -> ir.Value:
    """Loads through `pointer`. Where `mask` is false, the result is `other`, or undefined without `other`."""
    kind = loaded_type(pointer)
    if isinstance(other, (int, float)):
        other = full(shape_of(kind), element_of(kind), other)
    given = [x for x in (pointer, mask, other) if x is not None]
    return LOAD(
        given,
        [kind],
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, int(mask is not None), int(other is not None)]),
        boundaryCheck=ir.DenseI32ArrayAttr.get([]),
        cache=_i32(CACHE["none"]),
        evict=_i32(EVICT["normal"]),
        isVolatile=ir.BoolAttr.get(False),
    ).result


def store(pointer: ir.Value, value: ir.Value, mask: ir.Value | None = None) -> None:
    """Writes `value` where `mask` is true, or everywhere."""
    given = [pointer, value] if mask is None else [pointer, value, mask]
    empty = ir.DenseI32ArrayAttr.get([])
    STORE(given, [], boundaryCheck=empty, cache=_i32(CACHE["none"]), evict=_i32(EVICT["normal"]))


def reduce(operands: Sequence[ir.Value], axis: int, combine: Combiner) -> list[ir.Value]:
    """`operands`, blocks of one shape, combined along `axis`, which is removed; 1-d blocks give scalars."""
    shape = list(shape_of(operands[0]))
    del shape[axis]
    kinds = [block_type(shape, element_of(x)) for x in operands]
    op = _with_combiner(REDUCE, REDUCE_RETURN, operands, kinds, combine, axis=_i32(axis))
    return list(op.results)


def scan(operands: Sequence[ir.Value], axis: int, combine: Combiner, reverse: bool = False) -> list[ir.Value]:
    """The running combination of `operands` along `axis`, each element included; from the end if `reverse`."""
    kinds = [x.type for x in operands]
    flag = ir.BoolAttr.get(reverse)
    op = _with_combiner(SCAN, SCAN_RETURN, operands, kinds, combine, axis=_i32(axis), reverse=flag)
    return list(op.results)


def extern_elementwise(operands: Sequence[ir.Value], result_type: ir.Type, symbol: str) -> ir.Value:
    """`symbol` (such as __nv_tanhf) of the device library that Triton links on its own."""
    empty = ir.StringAttr.get("")
    return EXTERN_ELEMENTWISE(
        operands,
        [result_type],
        libname=empty,
        libpath=empty,
        pure=ir.BoolAttr.get(True),
        symbol=ir.StringAttr.get(symbol),
    ).result


def precise_sqrt(x: ir.Value) -> ir.Value:
    return PRECISE_SQRT([x], [x.type]).result


def precise_divf(x: ir.Value, y: ir.Value) -> ir.Value:
    return PRECISE_DIVF([x, y], [x.type]).result


def bitcast(x: ir.Value, to: str | ir.Type) -> ir.Value:
    """The same bits as another element type of the same width."""
    return BITCAST([x], [block_type(shape_of(x), to)]).result


def atomic_rmw(kind: str, pointer: ir.Value, value: ir.Value, mask: ir.Value | None = None) -> ir.Value:
    """Combines `value` into memory, in any order, and returns the old value. `kind`: a key of ATOMIC."""
    given = [pointer, value] if mask is None else [pointer, value, mask]
    numbers = {"atomic_rmw_op": _i32(ATOMIC[kind]), "sem": _i32(SEM["relaxed"]), "scope": _i32(SCOPE["gpu"])}
    return ATOMIC_RMW(given, [value.type], **numbers).result


def dot(a: ir.Value, b: ir.Value, c: ir.Value, precision: str = "ieee") -> ir.Value:
    """a @ b + c in the type of `c`. `precision`, of f32 operands: a key of PRECISION."""
    return DOT([a, b, c], [c.type], inputPrecision=_i32(PRECISION[precision]), maxNumImpreciseAcc=_i32(0)).result


def split(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    kind = block_type(shape_of(x)[:-1], element_of(x))
    first, second = SPLIT([x], [kind, kind]).results
    return first, second


def _i32(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)


def _attribute(number: float, kind: ir.Type) -> ir.Attribute:
    if isinstance(kind, ir.FloatType):
        return ir.FloatAttr.get(kind, float(number))
    return ir.IntegerAttr.get(kind, int(number))


def _block(op: ir.Operation, argument_types: Sequence[ir.Type]) -> ir.Block:
    return op.regions[0].blocks.append(*argument_types, arg_locs=[op.location] * len(argument_types))


def _with_combiner(
    row: OpenOp,
    end: OpenOp,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    combine: Combiner,
    **attributes: ir.Attribute,
) -> ir.Operation:
    op = ir.Operation.create(row.name, results=list(results), operands=list(operands), attributes=attributes, regions=1)
    scalars = [element_of(x) for x in operands]
    block = _block(op, [*scalars, *scalars])
    with ir.InsertionPoint(block):
        combined = combine(*block.arguments)
        end([combined] if isinstance(combined, ir.Value) else list(combined), [])
    return op
