"""What a module's launches say of a kernel: where its arguments begin, and what its parameters p0, p1, … are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.host import base_of
from cuesta.dialects.kernel_module import launch_parameters
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.runtime.offsets import ALIGNMENT
from cuesta.sizes import Number, hint, symbols
from cuesta.sizes.facts import divisor_of, substituted


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    #: of each argument from an aligned address, in bytes
    offsets: list[Number]
    parameters: dict[str, Number]
    op: ir.Operation | None = None

    def size(self, size: Number) -> Number:
        """A size of the kernel in the call's symbols."""
        return substituted(size, self.parameters)


def launches_of(module: ir.Module) -> dict[str, list[Launch]]:
    """Kernel → its launches, in order."""
    found: dict[str, list[Launch]] = {}
    for graph in functions(module):
        for view in graph.regions[0].blocks[0].operations:
            op = view.operation
            if op.name == "host.launch":
                parameters = {f"p{i}": number for i, number in enumerate(launch_parameters(op))}
                launch = Launch([base_of(v)[1] for v in op.operands], parameters, op)
                found.setdefault(op.attributes["kernel"].value[-1], []).append(launch)
    return found


def largest(launches: Sequence[Launch], sizes: Sequence[Number]) -> list[int]:
    """About what a kernel's sizes are in the launch that has the most work."""
    known = [[hint(launch.size(n)) for n in sizes] for launch in launches]
    return max(known, key=math.prod, default=[hint(n) for n in sizes])


def traced_parameters(launches: Sequence[Launch]) -> dict[str, int]:
    """About what a kernel's parameters are in the launch that has most of everything."""
    known = [{name: hint(value) for name, value in launch.parameters.items()} for launch in launches]
    return max(known, key=lambda values: math.prod(values.values()), default={})


def common_divisor(numbers: Iterable[Number], limit: int) -> int:
    """What divides all of them whatever the call, at most `limit`, a power of two. Offsets in the arena are aligned."""
    found = limit
    for number in numbers:
        arena = {name: ALIGNMENT for name in symbols(number) if name[0] == "a" and name[1:].isdigit()}
        found = math.gcd(found, divisor_of(number, arena))
    return found


#: What i32 counts to, less the largest block: a position may lie that much behind the last one that exists.
_LARGEST = (1 << 31) - 1 - (1 << 20)


def is_wide(launches: Sequence[Launch], counts: Sequence[Number]) -> bool:
    """Whether counts of a kernel need i64 in some launch. Where they do not in the traced call, that is noted."""
    counted = dict.fromkeys(launch.size(count) for launch in launches for count in counts)
    return any(hint(count) > _LARGEST for count in counted) or any(count > _LARGEST for count in counted)
