"""Names the attributes of MLIR's own ops, as fields.

    SYM_NAME.of(function)         "gelu"
    ITERATOR_TYPES.of(generic)    ["parallel", "reduction"]

They are for code that has an `ir.Operation`: a view, such as a `func.FuncOp`, has properties for some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cuesta._mlir import arith, ir
from cuesta.dialects.fields import Field, Int, Maps, Raw, Scalar, Text

#: What the loops of a generic are.
PARALLEL, REDUCTION = "parallel", "reduction"
_ITERATOR = re.compile(r"#linalg\.iterator_type<(\w+)>")


class DenseInts(Field[list[int]]):
    """Integers, as in `array<i64: 1, 0>`."""

    kind = ir.DenseI64ArrayAttr

    def read(self, attribute: Any) -> list[int]:
        return list(attribute)

    def write(self, value: Iterable[int]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get(list(value))


class Iterators(Field[list[str]]):
    """What each loop of a generic is: PARALLEL or REDUCTION."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[str]:
        return _ITERATOR.findall(str(attribute))  # to print each item takes four times as long

    def write(self, value: Iterable[str]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{item}>") for item in value])


class Type(Field[Any]):
    """A type: an `ir.FunctionType` for a func.func."""

    kind = ir.TypeAttr

    def read(self, attribute: Any) -> Any:
        return attribute.value

    def write(self, value: ir.Type) -> ir.Attribute:
        return ir.TypeAttr.get(value)


class FlatSymbol(Field[str]):
    """A reference to a symbol of the same module, such as `@malloc`."""

    kind = ir.FlatSymbolRefAttr

    def read(self, attribute: Any) -> str:
        return str(attribute.value)

    def write(self, value: str) -> ir.Attribute:
        return ir.FlatSymbolRefAttr.get(value)


#: Of a function or a global: its name and, for a function, its type.
SYM_NAME, FUNCTION_TYPE = Text("sym_name"), Type("function_type")
#: Of an llvm.func: who may replace it when object files are linked, and what LLVM is told of it.
LINKAGE, PASSTHROUGH = Raw("linkage"), Raw("passthrough")
#: Of a call: the function that it calls.
CALLEE = FlatSymbol("callee")

#: Of a linalg.generic, and of a kernel.scatter the first.
INDEXING_MAPS, ITERATOR_TYPES = Maps("indexing_maps"), Iterators("iterator_types")
#: Of a linalg.index: the loop whose index it is.
INDEX_DIM = Int("dim")
#: Of a linalg.transpose: result dim i is operand dim `PERMUTATION[i]`.
PERMUTATION = DenseInts("permutation")

#: Of a memref.subview or a tensor slice: `ir.ShapedType.get_dynamic_size()` where an operand gives the number.
STATIC_OFFSETS, STATIC_SIZES = DenseInts("static_offsets"), DenseInts("static_sizes")

#: Of an llvm.alloca: the type of each element.
ELEM_TYPE = Type("elem_type")

#: Of a constant that is no vector: its number.
CONSTANT = Scalar("value")
#: Of an arith.cmpi, an arith.cmpf or an llvm.icmp: the comparison, by number.
PREDICATE = Int("predicate")


def constant_of(value: ir.Value) -> int | float | None:
    """The number that an arith.constant gives `value`, which is no vector; None where another op makes the value."""
    owner = value.owner
    known = not isinstance(owner, ir.Block) and owner.name == arith.ConstantOp.OPERATION_NAME
    return CONSTANT.of(owner) if known else None


def splat_of(value: ir.Value) -> int | float | None:
    """The number that an arith.constant gives all elements of a block or a vector; None for any other value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != arith.ConstantOp.OPERATION_NAME:
        return None
    values = owner.attributes[CONSTANT.name]
    is_splat = isinstance(values, ir.DenseElementsAttr) and values.is_splat
    return values.get_splat_value().value if is_splat else None
