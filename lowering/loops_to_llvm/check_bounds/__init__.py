"""Inserts a bounds check before each access of a kernel: an access outside of its buffer is redirected to a dummy.

    llvm.func @k__tiles(%x: ptr, %n: i64) {      llvm.func @k__tiles(%x: ptr, %record: ptr, %bytes: i64, %n: i64) {
      %p = llvm.getelementptr %x[%n]               %p = llvm.getelementptr %x[%n]
      %v = llvm.load %p : f32             →        %q = llvm.call @k__tiles__inside(%p, 0, 4, %x, %bytes, …)
                                                   %v = llvm.load %q : f32

Runs only for `options={"checked": True}`, on kernels in the LLVM dialect. Each kernel gets extra parameters after its
buffers: a pointer to the record of the first access outside, and the bytes of each buffer; `check-operands` makes the
launches pass these. A kernel's own scratch memory is checked against its size. `cuesta.accesses` of the module
describes the places that a record may name: [buffer, "read" or "write", source line]; the buffer is -1 for scratch.

Flags that promise LLVM that an address does not overflow are removed: LLVM may drop checks of what it was promised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import walk
from cuesta.dialects.host.operands import ACCESSES
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.upstream_fields import CALLEE, CONSTANT, FUNCTION_TYPE, PREDICATE, SYM_NAME
from cuesta.errors import CompileError
from cuesta.lowering.host_to_llvm.describe import origin
from cuesta.lowering.loops_to_llvm.check_bounds.accesses import Access, Memories, Memory, access_of, is_pointer
from cuesta.lowering.loops_to_llvm.check_bounds.build import (
    binary,
    call,
    constant,
    create,
    integer,
    pointer_type,
    select,
    zeros,
)
from cuesta.lowering.loops_to_llvm.check_bounds.inside import MOST_SITES, inside_function
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: Suffix of the name of the function that checks addresses.
_INSIDE = "__inside"
#: Ops that may carry flags against overflow. They are created anew without these flags.
_PROMISING = frozenset(f"llvm.{name}" for name in ("getelementptr", "add", "sub", "mul", "shl", "trunc", "zext"))
#: Functions other than kernels that kernels call with pointers.
_ALLOCATOR = frozenset({"malloc", "free"})
_PARAMETERS = re.compile(r"(?<=\()[^()]*(?=\)>$)")


@dataclass
class _Sites:
    """The places of accesses, numbered from 1. Accesses with the same description share a number."""

    numbers: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def number(self, access: Access, memory: Memory) -> int:
        buffer = -1 if memory.number is None else memory.number
        key = (buffer, "write" if access.writes else "read", origin(access.op)["where"])
        number = self.numbers.setdefault(key, len(self.numbers) + 1)
        if number > MOST_SITES:
            raise CompileError(f"a checked program has at most {MOST_SITES} different accesses of memory")
        return number

    def attribute(self) -> ir.ArrayAttr:
        kind = integer(64)
        return ir.ArrayAttr.get(
            [
                ir.ArrayAttr.get([ir.IntegerAttr.get(kind, buffer), ir.StringAttr.get(what), ir.StringAttr.get(line)])
                for buffer, what, line in self.numbers
            ]
        )


@register_pass("check-bounds")
class CheckBounds(Pass):
    """Inserts a bounds check before each access of a kernel."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            sites = _Sites()
            for nested in kernel_modules(module):
                functions = {
                    SYM_NAME.of(op): op.operation
                    for op in nested.body.operations
                    if op.operation.name == "llvm.func" and len(op.operation.regions[0].blocks)
                }
                checked = {name: f for name, f in functions.items() if any(map(is_pointer, _entry(f).arguments))}
                for function in checked.values():
                    _check(function, set(checked), sites)
            ACCESSES.put(module.operation, sites.attribute())


def _entry(function: ir.Operation) -> ir.Block:
    return function.regions[0].blocks[0]


def _check(function: ir.Operation, kernels: set[str], sites: _Sites) -> None:
    _drop_promises(function)
    ops = list(walk(function))
    accesses = [access for op in ops if (access := access_of(op)) is not None]
    calls = [op for op in ops if op.name == "llvm.call" and any(map(is_pointer, op.operands))]
    writer = _Writer(function, sites)
    for access in accesses:
        writer.check(access)
    for op in calls:
        callee = CALLEE.find(op) or ""
        if callee in kernels:
            writer.extend(op)
        elif callee not in _ALLOCATOR:
            raise CompileError(f"check-bounds does not know what a call of @{callee} does to memory, at {op.location}")
    writer.finish(max((access.nbytes for access in accesses), default=0))


def _drop_promises(function: ir.Operation) -> None:
    for op in list(walk(function)):
        if op.name in _PROMISING:
            with ir.InsertionPoint(op), op.location:
                attributes = {name: op.attributes[name] for name in op.attributes}
                made = create(op.name, op.operands, op.results[0].type, attributes)
            op.results[0].replace_all_uses_with(made)
            op.erase()


class _Writer:
    """Inserts the checks into one function."""

    def __init__(self, function: ir.Operation, sites: _Sites) -> None:
        self._function, self._sites = function, sites
        self._name = SYM_NAME.of(function)
        pointers = self._add_parameters()
        buffers = enumerate(zip(pointers, self._bytes, strict=True))
        self.memories = Memories({pointer: Memory(pointer, nbytes, i) for i, (pointer, nbytes) in buffers})
        with ir.InsertionPoint.at_block_begin(_entry(function)), function.location:
            self._dummy_bytes = constant(0)
            self._dummy = zeros(self._dummy_bytes)

    def _add_parameters(self) -> list[Value]:
        """Changes the parameters (pointers…, others…) to (pointers…, record, bytes…, others…). Returns the pointers."""
        entry, unknown = _entry(self._function), ir.Location.unknown()
        arguments = list(entry.arguments)
        count = sum(map(is_pointer, arguments))
        if any(map(is_pointer, arguments[count:])):
            raise CompileError(f"check-bounds needs the buffers of @{self._name} before its other arguments")
        self._record = entry.add_argument(pointer_type(), unknown)
        self._bytes = [entry.add_argument(integer(64), unknown) for _ in range(count)]
        for argument in arguments[count:]:
            moved = entry.add_argument(argument.type, argument.location)
            argument.replace_all_uses_with(moved)
        for _ in arguments[count:]:
            entry.erase_argument(count)
        kinds = ", ".join(str(a.type).removeprefix("!llvm.") for a in entry.arguments)
        text = _PARAMETERS.sub(kinds, str(FUNCTION_TYPE.of(self._function)))
        FUNCTION_TYPE.put(self._function, ir.Type.parse(text))
        if "arg_attrs" in self._function.attributes:
            kept = list(self._function.attributes["arg_attrs"])
            new = [ir.DictAttr.get({})] * (1 + count)
            self._function.attributes["arg_attrs"] = ir.ArrayAttr.get([*kept[:count], *new, *kept[count:]])
        return list(entry.arguments)[:count]

    def check(self, access: Access) -> None:
        op = access.op
        memory = self.memories.of(op.operands[access.pointer])
        site = self._sites.number(access, memory)
        with ir.InsertionPoint(op), op.location:
            pointer = op.operands[access.pointer]
            if access.scattered:
                op.operands[access.pointer] = self._each(access, pointer, memory, site)
            elif access.mask is not None:
                start, width = _between_active(op.operands[access.mask], access)
                op.operands[access.pointer] = self._inside(pointer, start, width, memory, site)
            else:
                width = constant(access.width)
                op.operands[access.pointer] = self._inside(pointer, constant(0), width, memory, site)

    def _inside(self, pointer: Value, start: Value, width: Value, memory: Memory, site: int) -> Value:
        given = [pointer, start, width, memory.base, memory.nbytes, constant(site), self._record, self._dummy]
        (checked,) = call(self._name + _INSIDE, given, pointer_type())
        return checked

    def _each(self, access: Access, pointers: Value, memory: Memory, site: int) -> Value:
        """A vector of checked pointers for a gather or scatter. The check of an inactive element always passes."""
        assert access.mask is not None
        mask, zero = access.op.operands[access.mask], constant(0)
        for lane in range(access.lanes):
            position = constant(lane)
            pointer = create("llvm.extractelement", [pointers, position], pointer_type())
            active = create("llvm.extractelement", [mask, position], integer(1))
            width = select(active, constant(access.width), zero)
            made = self._inside(pointer, zero, width, memory, site)
            pointers = create("llvm.insertelement", [pointers, made, position], pointers.type)
        return pointers

    def extend(self, op: ir.Operation) -> None:
        """Adds the extra arguments to a call of another function of the kernel."""
        operands = list(op.operands)
        count = sum(map(is_pointer, operands))
        memories = [self.memories.of(pointer) for pointer in operands[:count]]
        if any(memory.base != pointer for memory, pointer in zip(memories, operands, strict=False)):
            raise CompileError(f"check-bounds needs whole buffers as arguments of a call, at {op.location}")
        given = [*operands[:count], self._record, *(memory.nbytes for memory in memories), *operands[count:]]
        with ir.InsertionPoint(op), op.location:
            call(CALLEE.of(op), given, None)
        op.erase()

    def finish(self, widest: int) -> None:
        """Makes the dummy large enough for every access, and adds the function that checks addresses."""
        CONSTANT.put(self._dummy_bytes.owner, max(widest, 1))
        made = ir.Module.parse(inside_function(self._name + _INSIDE))
        (function,) = made.body.operations
        function.operation.move_before(self._function)


def _between_active(mask: Value, access: Access) -> tuple[Value, Value]:
    """The bytes before the first active element, and the bytes from there to the end of the last active element; 0 if
    no element is active."""
    lanes = access.lanes
    bits = create("llvm.bitcast", [mask], integer(lanes))
    if lanes < 64:
        bits = create("llvm.zext", [bits], integer(64))
    poison = {"is_zero_poison": ir.BoolAttr.get(False)}
    first = create("llvm.intr.cttz", [bits], integer(64), poison)
    after_last = binary("sub", constant(64), create("llvm.intr.ctlz", [bits], integer(64), poison))
    any_active = create("llvm.icmp", [bits, constant(0)], integer(1), PREDICATE.entry(1))
    count = select(any_active, binary("sub", after_last, first), constant(0))
    size = constant(access.width)
    return binary("mul", first, size), binary("mul", count, size)
