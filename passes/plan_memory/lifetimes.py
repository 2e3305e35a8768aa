"""What memory a host function holds, and from which op to which."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.passes.plan_memory.allocator import Buffer

Value: TypeAlias = ir.Value

_BITS = re.compile(r"\d+")


@dataclass
class Base:
    """Memory of its own: an alloc, or a result of a call into ATen."""

    value: Value
    users: list[ir.Operation]  # ops that touch it through any view, in program order
    views: list[ir.Operation]  # its views, in program order
    is_returned: bool

    @property
    def is_alloc(self) -> bool:
        return bool(self.value.owner.name == "host.alloc")

    @property
    def nbytes(self) -> int:
        return byte_count(self.value.type)

    def span(self, step: dict[ir.Operation, int], end: int) -> Buffer:
        """The steps during which it holds something: to the end where it is returned."""
        own = [] if self.is_alloc else [step[self.value.owner]]
        steps = own + [step[user] for user in self.users] or [step[self.value.owner]]
        return Buffer(self.nbytes, min(steps), end if self.is_returned else max(steps))


def byte_count(kind: ir.Type) -> int:
    """Bytes of the elements of a memref."""
    memref = ir.MemRefType(kind)
    return math.prod(memref.shape) * element_bytes(memref.element_type)


def element_bytes(element: ir.Type) -> int:
    """Bytes of one element, by the first number in its name: f32, i64, ui8, complex<f32>, f8E4M3FN."""
    name = str(element)
    found = _BITS.search(name)
    assert found is not None, f"{name} has no size"
    return max(int(found.group()) // 8, 1) * (2 if name.startswith("complex") else 1)


def bases_of(block: ir.Block) -> list[Base]:
    """Every alloc and every result of a call, in program order."""
    found: list[Base] = []
    owner: dict[Value, Base] = {}
    for op in block.operations:
        operation = op.operation
        for operand in dict.fromkeys(operation.operands):
            base = owner.get(operand)
            if base is None:
                continue
            if operation.name == "host.view":
                base.views.append(operation)
                owner[operation.results[0]] = base
            elif operation.name == "func.return":
                base.is_returned = True
            elif not base.users or base.users[-1] != operation:
                base.users.append(operation)
        if operation.name in ("host.alloc", "host.aten"):
            for result in operation.results:
                base = Base(result, [], [], False)
                found.append(base)
                owner[result] = base
    return found
