"""Defines the kinds of attributes that only the tt ops have; `cuesta.dialects.fields` says what a field is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cuesta._mlir import ir
from cuesta.dialects.fields import Field, HasAttributes, Int, Marker

#: Of an scf.for: Triton merges it with the loop in it, so that loads for its next turn begin before one ends.
FLATTEN = Marker("tt.flatten")


def _i32(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)


class I32(Int):
    """An i32, where the other dialects have an i64."""

    def write(self, value: int) -> ir.Attribute:
        return _i32(value)


#: Of an scf.for: how many turns have their loads in flight at once.
LOOP_STAGES = I32("tt.num_stages")


class I32s(Field[list[int]]):
    kind = ir.DenseI32ArrayAttr

    def read(self, attribute: Any) -> list[int]:
        return list(attribute)

    def write(self, value: Sequence[int]) -> ir.Attribute:
        return ir.DenseI32ArrayAttr.get(list(value))


class I32Block(Field[list[int]]):
    """Numbers as the elements of a tensor."""

    kind = ir.DenseIntElementsAttr

    def read(self, attribute: Any) -> list[int]:
        return list(attribute)

    def write(self, value: Sequence[int]) -> ir.Attribute:
        kind = ir.RankedTensorType.get([len(value)], ir.IntegerType.get_signless(32))
        return ir.DenseElementsAttr.get([_i32(n) for n in value], kind)


#: Of an op that makes a block of pointers: along each dim, how many lie side by side, and what divides the first of
#: these, in bytes. Triton lays threads along the dim of the longest runs.
RUNS, RUNS_DIVIDE = I32Block("tt.contiguity"), I32Block("tt.divisibility")


class Bool(Field[bool]):
    """`true` or `false`."""

    kind = ir.BoolAttr

    def read(self, attribute: Any) -> bool:
        return attribute.value

    def write(self, value: bool) -> ir.Attribute:
        return ir.BoolAttr.get(value)


class Code(Field[str]):
    """A word that Triton writes as a number."""

    kind = ir.IntegerAttr
    #: Word → number.
    CODES: ClassVar[Mapping[str, int]] = {}

    def read(self, attribute: Any) -> str:
        words = {number: word for word, number in self.CODES.items()}
        return words[attribute.value]

    def write(self, value: str) -> ir.Attribute:
        return _i32(self.CODES[value])

    def problem(self, op: HasAttributes) -> str | None:
        """What is wrong with the number at an op, or None."""
        number = op.attributes[self.name].value
        known = ", ".join(f"{n} ({word})" for word, n in self.CODES.items())
        return None if number in self.CODES.values() else f"attribute {self.name!r} is {number}; it is one of {known}"


class CacheModifier(Code):
    CODES: ClassVar = {"none": 1, "ca": 2, "cg": 3, "wb": 4, "cs": 5, "wt": 6, "cv": 7}


class EvictionPolicy(Code):
    CODES: ClassVar = {"normal": 1, "first": 2, "last": 3}


class AtomicOp(Code):
    CODES: ClassVar = {
        "and": 1,
        "or": 2,
        "xor": 3,
        "add": 4,
        "fadd": 5,
        "max": 6,
        "min": 7,
        "umax": 8,
        "umin": 9,
        "exch": 10,
    }


class MemoryOrder(Code):
    CODES: ClassVar = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}


class MemoryScope(Code):
    CODES: ClassVar = {"gpu": 1, "cta": 2, "sys": 3}


class Precision(Code):
    CODES: ClassVar = {"tf32": 0, "tf32x3": 1, "ieee": 2}


class Dictionaries(Field[Sequence[Any]]):
    """A dictionary of attributes for each argument; other fields read and write its entries."""

    kind = ir.ArrayAttr

    def read(self, attribute: Any) -> Sequence[Any]:
        return attribute

    def write(self, value: Iterable[Mapping[str, ir.Attribute]]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.DictAttr.get(dict(entries)) for entries in value])
