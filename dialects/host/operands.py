"""Finds the memory, and the part of it, that each operand of a host function's ops occupies.

%b = host.alloc() : memref<64xf32>                      the first operand of the launch: bytes 128 to 256 of %b,
%v = host.view(%b) {offset = 128} : … memref<32xf32>    which has 256
host.launch(%v, …)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.fields import Marker, Raw
from cuesta.dialects.host import Arena, Call, Free, Launch, View
from cuesta.dialects.types import memref_shape
from cuesta.runtime.extents import extent
from cuesta.sizes import Number

#: Of a module that is compiled with `options={"checked": True}`.
CHECKED = Marker("cuesta.checked")
#: Of such a module once it is in LLVM: describes each access; records refer to accesses by number, from 1.
ACCESSES = Raw("cuesta.accesses")


@dataclass(frozen=True)
class Region:
    """The extent of a memref. Sizes and strides are in elements."""

    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]
    itemsize: int

    @staticmethod
    def of(value: ir.Value) -> Region:
        """The region of a value of memref type."""
        sizes, strides = memref_shape(value.type)
        return Region(sizes, strides, max(ir.MemRefType(value.type).element_type.width // 8, 1))

    @property
    def nbytes(self) -> Number:
        return extent(self.sizes, self.strides, self.itemsize)


@dataclass(frozen=True)
class Operand:
    """An operand of an op: a region from `offset` bytes on in the memory of `base`."""

    op: ir.Operation
    number: int
    region: Region
    offset: Number
    base: ir.Value

    @property
    def what(self) -> str:
        """For a message: "operand 1 of kernel add_relu", "result 0"."""
        match self.op.name:
            case "host.launch":
                return f"operand {self.number} of kernel {Launch.kernel.of(self.op)}"
            case "host.aten":
                return f"operand {self.number} of {Call.overload.of(self.op)}"
            case "func.return":
                return f"result {self.number}"
        return f"operand {self.number} of {self.op.name}"


def operands_of(block: ir.Block) -> Iterator[Operand]:
    """The operands of all ops of a host function that read or write memory, or return it."""
    for view in block.operations:
        op = view.operation
        if View.matches(op) or Free.matches(op):
            continue
        for number, value in enumerate(op.operands):
            base, offset = memory_of(value)
            yield Operand(op, number, Region.of(value), offset, base)


def memory_of(value: ir.Value) -> tuple[ir.Value, Number]:
    """(the memory that a value is part of, such as a buffer in the arena; the value's offset in it, in bytes)."""
    offset: Number = 0
    while not isinstance(value.owner, ir.Block) and View.matches(value.owner):
        source = value.owner.operands[0]
        if not isinstance(source.owner, ir.Block) and Arena.matches(source.owner):
            break
        offset += View.offset.of(value.owner)
        value = source
    return value, offset


def name_of(base: ir.Value) -> str:
    """For a message: the origin of a memory."""
    if isinstance(base.owner, ir.Block):
        return f"argument {ir.BlockArgument(base).arg_number}"
    return {"host.view": "a buffer in the arena", "host.alloc": "memory for a result"}.get(
        base.owner.name, "a result of a call into ATen"
    )
