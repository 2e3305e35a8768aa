"""Maps element types and shapes between torch, MLIR and cuesta's levels.

The cuesta dialect keeps torch's meaning in the type: i1 is bool, i8 int8, ui8 uint8. From linalg
down only storage counts: bool and uint8 are i8, and the ops carry the signedness.

A symbolic size is `?` in a type, and the type's encoding names it: `tensor<?x64xf32, ["s0"]>`. In a memref, the memory
space names symbolic sizes and strides: `memref<?x?xf32, strided<[?, 1]>, {at = ["s0", "s1", "s1"]}>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from cuesta._mlir import arith, ir
from cuesta.errors import Undecided
from cuesta.runtime.dtypes import COMPUTABLE as COMPUTABLE
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.dtypes import SPELLING as SPELLING
from cuesta.sizes import Number, Size, estimate, number, parse

#: Type → the type of its storage, if that is another one. A complex number is stored as one integer with both parts.
#: A float of 8 bits is stored as an integer, because LLVM has no type for it.
_STORAGE = {
    "i1": "i8",
    "ui8": "i8",
    "f8E4M3FN": "i8",
    "f8E5M2": "i8",
    "complex<bf16>": "i32",
    "complex<f16>": "i32",
    "complex<f32>": "i64",
    "complex<f64>": "i128",
}
_FLOATS: dict[type, str] = {ir.F32Type: "f32", ir.F64Type: "f64", ir.BF16Type: "bf16", ir.F16Type: "f16"}
#: Types whose arithmetic is done in f32, as ATen's opmath type says.
_OPMATH = {"bf16": "f32", "f16": "f32"}


def torch_dtype(element: ir.Type | str) -> torch.dtype:
    """The torch dtype of an element type of the cuesta dialect."""
    return DTYPES[str(element)]


def opmath(spelling: str) -> str:
    """The type that arithmetic on `spelling` is carried out in."""
    return _OPMATH.get(spelling, spelling)


def storage(spelling: str) -> str:
    """The signless, byte-addressable type that holds `spelling` in memory."""
    return _STORAGE.get(spelling, spelling)


def element(spelling: str) -> ir.Type:
    """The MLIR element type of that spelling in the current context."""
    return ir.Type.parse(spelling)


def tensor(shape: Sequence[Number], spelling: str) -> ir.RankedTensorType:
    """`tensor<AxBxspelling>` in the current context."""
    shape = [number(n) for n in shape]
    symbolic = [ir.StringAttr.get(str(n)) for n in shape if isinstance(n, Size)]
    encoding = ir.ArrayAttr.get(symbolic) if symbolic else None
    return ir.RankedTensorType.get([static(n) for n in shape], element(spelling), encoding)


def unspelled_tensor(shape: Sequence[Number], spelling: str) -> ir.RankedTensorType:
    """The tensor type without the encoding that names its symbolic sizes."""
    return ir.RankedTensorType.get([static(n) for n in shape], element(spelling))


def shape_of(value: ir.Value) -> tuple[Number, ...]:
    """The shape of a tensor value."""
    return sizes_of(ir.RankedTensorType(value.type))


def sizes_of(kind: ir.RankedTensorType) -> tuple[Number, ...]:
    """The sizes of a tensor type."""
    return tuple(kind.shape) if kind.has_static_shape else tuple(_spelled(kind.shape, iter(list(kind.encoding))))


def empty(shape: Sequence[Number], spelling: str) -> ir.Value:
    """A tensor with unspecified contents, built at the current insertion point."""
    return ir.Operation.create(
        "tensor.empty",
        results=[tensor(shape, spelling)],
        operands=[size_value(n) for n in shape if isinstance(n, Size)],
    ).results[0]


def size_value(size: Size) -> ir.Value:
    """A symbolic size as a value of type index, at the current insertion point."""
    attribute = ir.StringAttr.get(str(size))
    op = ir.Operation.create("cuesta.size", results=[ir.IndexType.get()], attributes={"at": attribute})
    return op.results[0]


def size_of(op: ir.Operation) -> Size:
    """The size that a `cuesta.size` computes."""
    size = parse(op.attributes["at"].value)
    assert isinstance(size, Size)
    return size


def index_value(number: Number) -> ir.Value:
    """A size as a value of type index, at the current insertion point."""
    return size_value(number) if isinstance(number, Size) else arith.constant(ir.IndexType.get(), number)


def memref(sizes: Sequence[Number], strides: Sequence[Number] | None, spelling: str) -> ir.MemRefType:
    """The memref type of these sizes and strides; None stands for row-major strides."""
    symbolic = [n for n in (*sizes, *(strides or ())) if isinstance(n, Size)]
    space = (
        ir.DictAttr.get({"at": ir.ArrayAttr.get([ir.StringAttr.get(str(n)) for n in symbolic])}) if symbolic else None
    )
    layout = None if strides is None else strided(strides)
    return ir.MemRefType.get([static(n) for n in sizes], element(spelling), layout=layout, memory_space=space)


def memref_shape(kind: ir.Type) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    """The sizes and strides of a memref."""
    memref_type = ir.MemRefType(kind)
    if memref_type.memory_space is None:
        strides, _ = memref_type.get_strides_and_offset()
        return tuple(memref_type.shape), tuple(strides)
    symbolic = iter(list(memref_type.memory_space["at"]))
    sizes = tuple(_spelled(memref_type.shape, symbolic))
    if not isinstance(memref_type.layout, ir.StridedLayoutAttr):
        return sizes, tuple(row_major(sizes))
    return sizes, tuple(_spelled(memref_type.layout.strides, symbolic))


def row_major(sizes: Sequence[Number]) -> list[Number]:
    """The strides of a contiguous tensor, as torch counts them (size 0 counts as 1)."""
    strides: list[Number] = [1] * len(sizes)
    for d in range(len(sizes) - 2, -1, -1):
        strides[d] = strides[d + 1] * (1 if sizes[d + 1] == 0 else sizes[d + 1])
    return strides


def strided(strides: Sequence[Number]) -> ir.StridedLayoutAttr:
    """`strided<[…]>` without an offset."""
    return ir.StridedLayoutAttr.get(0, [static(n) for n in strides])


def static(number: Number) -> int:
    """The number as MLIR's types take it: `?` for a symbolic one."""
    return ir.ShapedType.get_dynamic_size() if isinstance(number, Size) else number


def _spelled(numbers: Sequence[int], symbolic: Iterator[ir.Attribute]) -> list[Number]:
    """The numbers, with each `?` replaced by the next one of `symbolic`."""
    unknown = ir.ShapedType.get_dynamic_size()
    return [parse(next(symbolic).value) if n == unknown else n for n in numbers]


def static_shape(value: ir.Value) -> tuple[int, ...]:
    """The shape of a tensor value whose sizes are all static. Raises Undecided for any other value."""
    shape = shape_of(value)
    if any(isinstance(n, Size) for n in shape):
        raise Undecided(f"the code needs sizes that are numbers, not {list(shape)}")
    return shape  # type: ignore[return-value]


def spelling_of(value: ir.Value) -> str:
    """The spelling of a tensor value's element type."""
    return spelled(value.type.element_type)


def spelled(kind: ir.Type) -> str:
    """A type's text. MLIR takes 4 µs to print it, and passes ask for it twenty thousand times in a graph of a thousand
    ops."""
    if isinstance(kind, ir.IntegerType):
        return f"{'i' if kind.is_signless else 'ui' if kind.is_unsigned else 'si'}{kind.width}"
    return _FLOATS.get(type(kind)) or str(kind)


def byte_size(spelling: str) -> int:
    """Bytes that one element takes in memory."""
    return torch_dtype(spelling).itemsize


def byte_count(value: ir.Value) -> int:
    """Bytes that a tensor takes in memory; an estimate if its sizes are symbolic."""
    return byte_size(spelling_of(value)) * estimate(shape_of(value))


def is_float(spelling: str) -> bool:
    return torch_dtype(spelling).is_floating_point
