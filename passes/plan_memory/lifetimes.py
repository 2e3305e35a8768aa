"""Computes the liveness of a host function's memory: which pieces it holds, and from which op to which."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.types import memref_shape
from cuesta.runtime.offsets import Buffer
from cuesta.sizes import Number, hint

_BITS = re.compile(r"\d+")
#: Ops whose results are memory that nothing referred to before.
_ALLOCATES = frozenset({host.Alloc.OPERATION_NAME, host.Call.OPERATION_NAME})


@dataclass
class Base:
    """A separate piece of memory: an alloc, a result of a call into ATen, or an argument that the call owns."""

    value: ir.Value
    users: list[ir.Operation]  # ops that use the memory, directly or through a view, in program order
    views: list[ir.Operation]  # views of the memory, in program order
    is_returned: bool

    @property
    def is_argument(self) -> bool:
        return isinstance(self.value.owner, ir.Block)

    @property
    def is_alloc(self) -> bool:
        return not self.is_argument and host.Alloc.matches(self.value.owner)

    @property
    def nbytes(self) -> int:
        """Bytes; an estimate if they depend on the call."""
        return hint(self.size)

    @property
    def size(self) -> Number:
        """Bytes."""
        return byte_count(self.value.type)

    def span(self, step: dict[ir.Operation, int], end: int) -> Buffer:
        """The steps during which the memory is live: from the start for an argument, to the end if it is returned."""
        steps = [step[user] for user in self.users]
        if self.is_argument:
            steps.append(0)
        elif not self.is_alloc or not steps:
            steps.append(step[self.value.owner])
        return Buffer(self.nbytes, min(steps), end if self.is_returned else max(steps))


def byte_count(kind: ir.Type) -> Number:
    """Bytes of the elements of a memref."""
    sizes, _ = memref_shape(kind)
    return math.prod(sizes) * element_bytes(ir.MemRefType(kind).element_type)


def element_bytes(element: ir.Type) -> int:
    """Bytes of one element, by the first number in its name: f32, i64, ui8, complex<f32>, f8E4M3FN."""
    name = str(element)
    found = _BITS.search(name)
    assert found is not None, f"{name} has no size"
    return max(int(found.group()) // 8, 1) * (2 if name.startswith("complex") else 1)


def bases_of(block: ir.Block, donated: Sequence[ir.Value] = ()) -> list[Base]:
    """The arguments `donated`, then every alloc and every result of a call, in program order."""
    found = [Base(argument, [], [], False) for argument in donated]
    owner = {base.value: base for base in found}
    for op in block.operations:
        operation = op.operation
        for operand in dict.fromkeys(operation.operands):
            base = owner.get(operand)
            if base is None:
                continue
            if host.View.matches(operation):
                base.views.append(operation)
                owner[operation.results[0]] = base
            elif operation.name == func.ReturnOp.OPERATION_NAME:
                base.is_returned = True
            elif not base.users or base.users[-1] != operation:
                base.users.append(operation)
        if operation.name in _ALLOCATES:
            for result in operation.results:
                base = Base(result, [], [], False)
                found.append(base)
                owner[result] = base
    return found
