"""Reads and writes the attributes of ops as Python values: a field is an attribute's name with its type.

    class Cat(Operation, name="cat"):
        dim: Int                                  Cat.dim.of(op)     1; KeyError if the op lacks the attribute
                                                  Cat.dim.put(op, 0)
    CLASSES = Ints("cuesta.classes")              CLASSES.find(op)   None if the op lacks the attribute

The class of an op declares the fields that belong to the op. A field that several kinds of ops may carry is a constant
of the module whose concept it is. Symbolic numbers are text in an attribute, such as "64*s0", and a `Size` in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args

from cuesta._mlir import ir
from cuesta.errors import Undecided
from cuesta.sizes import Number, Size, number, parse

T = TypeVar("T")

#: In the declaration of a field, `Annotated[Text, OPTIONAL]`: an op may lack the attribute.
OPTIONAL = "optional"


class HasAttributes(Protocol):
    """An `ir.Operation`, or a view of one."""

    @property
    def attributes(self) -> Any: ...


class Field(Generic[T]):
    """One attribute: its name, and how its value is read and written."""

    #: What MLIR's verifier requires the attribute to be.
    kind: ClassVar[Any] = ir.Attribute

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, attribute: Any) -> T:
        """The value of an attribute of this kind."""
        raise NotImplementedError

    def write(self, value: T) -> ir.Attribute:
        """The attribute of a value."""
        raise NotImplementedError

    def attribute(self, value: T | ir.Attribute) -> ir.Attribute:
        """The attribute of a value; an attribute itself, such as another op's."""
        return value if isinstance(value, ir.Attribute) else self.write(value)

    def of(self, op: HasAttributes) -> T:
        """The value at an op. Raises KeyError if the op lacks the attribute."""
        return self.in_(op.attributes)

    def find(self, op: HasAttributes) -> T | None:
        """The value at an op, or None if the op lacks the attribute."""
        return self.find_in(op.attributes)

    def in_(self, attributes: Any) -> T:
        """The value in a dictionary of attributes. Raises KeyError if the dictionary lacks it."""
        return self.read(attributes[self.name])

    def find_in(self, attributes: Any) -> T | None:
        """The value in a dictionary of attributes, such as those of an argument, or None."""
        return self.read(attributes[self.name]) if self.name in attributes else None

    def is_on(self, op: HasAttributes) -> bool:
        """Whether an op has the attribute."""
        return self.name in op.attributes

    def put(self, op: HasAttributes, value: T) -> None:
        """Sets the attribute of an op."""
        op.attributes[self.name] = self.write(value)

    def drop(self, op: HasAttributes) -> None:
        """Removes the attribute from an op, if the op has it."""
        if self.name in op.attributes:
            del op.attributes[self.name]

    def entry(self, value: T) -> dict[str, ir.Attribute]:
        """The attribute by its name, for the attributes of an op that is built."""
        return {self.name: self.write(value)}


class Raw(Field[Any]):
    """An attribute as it is, for kinds that no other field reads."""

    def read(self, attribute: Any) -> Any:
        return attribute

    def write(self, value: Any) -> ir.Attribute:
        return value


class Int(Field[int]):
    kind = ir.IntegerAttr

    def read(self, attribute: Any) -> int:
        return attribute.value

    def write(self, value: int) -> ir.Attribute:
        return int_attr(value)


class Flag(Field[bool]):
    """True or False as the integer 1 or 0."""

    kind = ir.IntegerAttr

    def read(self, attribute: Any) -> bool:
        return bool(attribute.value)

    def write(self, value: bool) -> ir.Attribute:
        return int_attr(value)


class Marker(Field[bool]):
    """A unit attribute: True where it is. An op without it lacks the attribute, so ask `is_on`."""

    kind = ir.UnitAttr

    def read(self, attribute: Any) -> bool:
        return True

    def write(self, value: bool = True) -> ir.Attribute:
        assert value, f"{self.name} marks an op by being there"
        return ir.UnitAttr.get()

    def mark(self, op: HasAttributes) -> None:
        """Marks an op."""
        self.put(op, True)


class Float(Field[float]):
    kind = ir.FloatAttr

    def read(self, attribute: Any) -> float:
        return attribute.value

    def write(self, value: float) -> ir.Attribute:
        return float_attr(value)


class Scalar(Field[int | float]):
    """An integer or a float."""

    kind = ir.FloatAttr | ir.IntegerAttr

    def read(self, attribute: Any) -> int | float:
        return attribute.value

    def write(self, value: int | float) -> ir.Attribute:
        return int_attr(value) if isinstance(value, int) else float_attr(value)


class Text(Field[str]):
    kind = ir.StringAttr

    def read(self, attribute: Any) -> str:
        return attribute.value

    def write(self, value: str) -> ir.Attribute:
        return ir.StringAttr.get(value)


class Texts(Field[list[str]]):
    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[str]:
        return [item.value for item in attribute]

    def write(self, value: Iterable[str]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.StringAttr.get(text) for text in value])


class Numeral(Field[Number]):
    """A size, stride or offset, which may be symbolic."""

    kind = ir.IntegerAttr | ir.StringAttr

    def read(self, attribute: Any) -> Number:
        return number_of(attribute)

    def write(self, value: Number) -> ir.Attribute:
        return int_attr(value)


class Ints(Field[list[int]]):
    """Integers. Reading raises Undecided if one is symbolic."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[int]:
        return ints(attribute)

    def write(self, value: Iterable[int]) -> ir.Attribute:
        return int_array(value)


class Numbers(Field[list[Number]]):
    """Sizes, strides or positions, which may be symbolic."""

    def known(self, op: HasAttributes) -> list[int]:
        """The value at an op. Raises Undecided if a number is symbolic."""
        return ints(op.attributes[self.name])

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[Number]:
        return numbers(attribute)

    def write(self, value: Iterable[Number]) -> ir.Attribute:
        return int_array(value)


class NumberRows(Field[list[list[Number]]]):
    """A list of lists of numbers, such as the strides of each result."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[list[Number]]:
        return [numbers(row) for row in attribute]

    def write(self, value: Iterable[Iterable[Number]]) -> ir.Attribute:
        return ir.ArrayAttr.get([int_array(row) for row in value])


class IntDict(Field[dict[str, int]]):
    """Integers by name."""

    kind = ir.DictAttr

    def read(self, attribute: Any) -> dict[str, int]:
        return {named.name: named.attr.value for named in attribute}

    def write(self, value: Mapping[str, int]) -> ir.Attribute:
        return ir.DictAttr.get({name: int_attr(n) for name, n in value.items()})


class NumberRowsOrAny(Field[list[list[Number] | None]]):
    """A list of lists of numbers; None, a unit attribute, where any numbers will do."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[list[Number] | None]:
        return [numbers(row) if isinstance(row, ir.ArrayAttr) else None for row in attribute]

    def write(self, value: Iterable[Iterable[Number] | None]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.UnitAttr.get() if row is None else int_array(row) for row in value])


class Symbols(Field[list[str]]):
    """References to symbols, each as in `Symbol`."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[str]:
        return [str(reference.value[-1]) for reference in attribute]

    def write(self, value: Iterable[str]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.SymbolRefAttr.get(["kernels", name]) for name in value])


class Maps(Field[list[Any]]):
    """Affine maps, such as those by which a generic reads and writes its operands."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> list[Any]:
        return [item.value for item in attribute]

    def write(self, value: Iterable[ir.AffineMap]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.AffineMapAttr.get(item) for item in value])


class Symbol(Field[str]):
    """A reference to a symbol: its last name, as in `@kernels::@gelu` → "gelu". Written as `@kernels::@name`."""

    kind = ir.SymbolRefAttr

    def read(self, attribute: Any) -> str:
        return str(attribute.value[-1])

    def write(self, value: str) -> ir.Attribute:
        return ir.SymbolRefAttr.get(["kernels", value])


def field_of(hint: Any) -> type[Field[Any]] | None:
    """The kind of field that an annotation in an op's class declares; None for operands and results."""
    kind = get_args(hint)[0] if is_optional(hint) else hint
    return kind if isinstance(kind, type) and issubclass(kind, Field) else None


def is_optional(hint: Any) -> bool:
    """Whether an annotation declares a field that an op may lack."""
    return OPTIONAL in get_args(hint)


def attributes_of(*entries: Mapping[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    """The attributes of an op that is built, from the entries of fields."""
    return {name: attribute for entry in entries for name, attribute in entry.items()}


def ints(attribute: Sequence[Any]) -> list[int]:
    """The integers of an array attribute. Raises Undecided if one is symbolic; `numbers` accepts symbolic ones."""
    found = [item.value for item in attribute]
    if any(isinstance(value, str) for value in found):
        raise Undecided(f"{attribute} depends on the call")
    return found


def numbers(attribute: Sequence[Any]) -> list[Number]:
    """The sizes, strides or positions of an array attribute, in which symbolic ones are text."""
    return [number_of(item) for item in attribute]


def number_of(attribute: Any) -> Number:
    """The inverse of `int_attr`."""
    return parse(attribute.value) if isinstance(attribute, ir.StringAttr) else attribute.value


def int_array(values: Iterable[Number]) -> ir.ArrayAttr:
    """`[1, 2]`: each number is an i64, or text such as "64*s0" if it is symbolic."""
    return ir.ArrayAttr.get([int_attr(n) for n in values])


def int_attr(value: Number) -> ir.Attribute:
    """An i64, or text if the number is symbolic."""
    known = number(value)
    if isinstance(known, Size):
        return ir.StringAttr.get(str(known))
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(known))


def float_attr(number: float) -> ir.FloatAttr:
    return ir.FloatAttr.get(ir.F64Type.get(), float(number))
