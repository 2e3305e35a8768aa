"""Describes memory accesses of LLVM dialect ops: the bytes they read or write, and the memory a pointer points into."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.upstream_fields import CALLEE, ELEM_TYPE
from cuesta.errors import CompileError
from cuesta.lowering.loops_to_llvm.check_bounds.build import binary, constant, select

Value: TypeAlias = ir.Value

_VECTOR = re.compile(r"vector<(\d+)x(.+)>")
_BITS = re.compile(r"(?:[if]|bf)(\d+)")
_POINTERS = re.compile(r"!llvm\.ptr|vector<\d+x!llvm\.ptr>|!llvm\.vec<\d+ x ptr>")
#: Ops with a pointer operand that do not access memory, or whose accesses cannot be wrong, such as prefetches.
_HARMLESS = frozenset(
    {
        *("llvm.getelementptr", "llvm.ptrtoint", "llvm.select", "llvm.icmp", "llvm.intr.prefetch"),
        *("llvm.intr.lifetime.start", "llvm.intr.lifetime.end", "llvm.extractelement", "llvm.insertelement"),
    }
)


@dataclass(frozen=True)
class Access:
    """An op that reads or writes memory through the pointer that is its operand number `pointer`.

    If the op is masked, `mask` is the number of its mask operand. Then the operand `pointer` may be a vector of
    pointers, one for each element.
    """

    op: ir.Operation
    pointer: int
    #: bytes of the access; of one element if there is a mask
    width: int
    writes: bool
    mask: int | None = None
    #: the count of elements if there is a mask
    lanes: int = 1
    #: whether the op takes a vector of pointers
    scattered: bool = False

    @property
    def nbytes(self) -> int:
        """The most bytes that the op accesses through one pointer."""
        return self.width if self.scattered else self.width * self.lanes


@dataclass(frozen=True)
class Memory:
    """The memory that a pointer points into: `nbytes` bytes from `base` on. `number` is the kernel's argument, None for
    scratch memory."""

    base: Value
    nbytes: Value
    number: int | None


def is_pointer(value: Value) -> bool:
    return _POINTERS.fullmatch(str(value.type)) is not None


def byte_count(kind: ir.Type) -> int:
    """Bytes that a value of a type takes in memory. Raises CompileError for an unknown type."""
    text = str(kind)
    if (vector := _VECTOR.fullmatch(text)) and vector[2] != "i1":
        return int(vector[1]) * byte_count(ir.Type.parse(vector[2]))
    if scalar := _BITS.fullmatch(text):
        return (int(scalar[1]) + 7) // 8
    if text == "!llvm.ptr":
        return 8
    raise CompileError(f"check-bounds does not know how many bytes a {text} takes")


def access_of(op: ir.Operation) -> Access | None:
    """The memory access of an op; None for an op without one, and for calls.

    Raises CompileError for an unknown op with a pointer operand, because no access may go unchecked.
    """
    match op.name:
        case "llvm.load":
            return Access(op, 0, byte_count(op.results[0].type), writes=False)
        case "llvm.store":
            return Access(op, 1, byte_count(op.operands[0].type), writes=True)
        case "llvm.atomicrmw":
            return Access(op, 0, byte_count(op.operands[1].type), writes=True)
        case "llvm.intr.masked.load" | "llvm.intr.masked.gather":
            return _masked(op, 0, op.results[0].type, mask=1, writes=False)
        case "llvm.intr.masked.store" | "llvm.intr.masked.scatter":
            return _masked(op, 1, op.operands[0].type, mask=2, writes=True)
    if op.name not in _HARMLESS and op.name != "llvm.call" and any(map(is_pointer, op.operands)):
        raise CompileError(f"check-bounds does not know what {op.name} does to memory, at {op.location}")
    return None


def _masked(op: ir.Operation, pointer: int, kind: ir.Type, mask: int, writes: bool) -> Access:
    lanes = ir.VectorType(kind).shape[0]
    if lanes > 64:
        raise CompileError(f"check-bounds takes masks of up to 64 elements, not {lanes}, at {op.location}")
    scattered = op.name.endswith(("gather", "scatter"))
    return Access(op, pointer, byte_count(kind) // lanes, writes, mask, lanes, scattered)


@dataclass
class Memories:
    """Finds the memory of each pointer of a function. Ops that compute its size are inserted after the op that defines
    the pointer."""

    #: the memories of the function's arguments
    known: dict[Value, Memory]
    found: dict[Value, Memory] = field(default_factory=dict)

    def of(self, pointer: Value) -> Memory:
        """The memory of a pointer. Raises CompileError if that cannot be found out."""
        if pointer in self.known:
            return self.known[pointer]
        if pointer not in self.found:
            if isinstance(pointer.owner, ir.Block):
                raise _unknown(pointer, "a block's argument")
            with ir.InsertionPoint.after(pointer.owner), pointer.owner.location:
                self.found[pointer] = self._of_result(pointer, pointer.owner)
        return self.found[pointer]

    def _of_result(self, pointer: Value, op: ir.Operation) -> Memory:
        match op.name:
            case "llvm.getelementptr":
                return self.of(op.operands[0])
            case "llvm.alloca":
                count = binary("mul", op.operands[0], constant(_element_bytes(op)))
                return Memory(pointer, count, None)
            case "llvm.call" if _callee(op) == "malloc":
                return Memory(pointer, op.operands[0], None)
            case "llvm.inttoptr":
                return _aligned(pointer, op.operands[0])
            case "llvm.select":
                left, right = (self.of(choice) for choice in list(op.operands)[1:])
                number = left.number if left.number == right.number else None
                base = select(op.operands[0], left.base, right.base)
                return Memory(base, select(op.operands[0], left.nbytes, right.nbytes), number)
        raise _unknown(pointer, f"a result of {op.name}")


def _element_bytes(alloca: ir.Operation) -> int:
    return byte_count(ELEM_TYPE.of(alloca))


def _callee(call: ir.Operation) -> str:
    return CALLEE.find(call) or ""


def _aligned(pointer: Value, address: Value) -> Memory:
    """Memory of malloc whose start is rounded up to a multiple of a: `(p + (a - 1)) - (p + (a - 1)) % a`. The
    allocation is a bytes larger than the memory."""
    difference = _made_by(address, "llvm.sub")
    total = difference and _made_by(difference.operands[0], "llvm.add")
    rest = difference and _made_by(difference.operands[1], "llvm.urem")
    if total is not None and rest is not None:
        for value in total.operands:
            number = _made_by(value, "llvm.ptrtoint")
            allocated = number and _made_by(number.operands[0], "llvm.call")
            if allocated and _callee(allocated) == "malloc":
                return Memory(pointer, binary("sub", allocated.operands[0], rest.operands[1]), None)
    raise _unknown(pointer, "a computed address")


def _made_by(value: Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return owner if not isinstance(owner, ir.Block) and owner.name == name else None


def _unknown(pointer: Value, what: str) -> CompileError:
    owner = pointer.owner
    location = owner.owner.location if isinstance(owner, ir.Block) else owner.location
    return CompileError(f"check-bounds does not know the memory of a pointer that is {what}, at {location}")
