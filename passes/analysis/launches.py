"""Reads a module's launches: where a kernel's arguments begin, and what its parameters p0, p1, … are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.dialects.kernel_module import launch_parameters, launched_kernels
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.runtime.offsets import ALIGNMENT
from cuesta.sizes import Number, hint, symbols
from cuesta.sizes.facts import divisor_of, substituted


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    #: for each argument, its offset from an aligned address, in bytes
    offsets: list[Number]
    parameters: dict[str, Number]
    op: ir.Operation | None = None

    def size(self, size: Number) -> Number:
        """A size in terms of the kernel's parameters, rewritten in the call's symbols."""
        return substituted(size, self.parameters)


def launches_of(module: ir.Module) -> dict[str, list[Launch]]:
    """Kernel → its launches, in order."""
    found: dict[str, list[Launch]] = {}
    for graph in functions(module):
        for view in graph.regions[0].blocks[0].operations:
            op = view.operation
            if host.Launch.matches(op):
                parameters = {f"p{i}": number for i, number in enumerate(launch_parameters(op))}
                launch = Launch([host.base_of(v)[1] for v in op.operands], parameters, op)
                found.setdefault(host.Launch.kernel.of(op), []).append(launch)
    return found


def launched_names(module: ir.Module) -> set[str]:
    """The names of the kernels that are launched, all versions of them."""
    ops = (view.operation for graph in functions(module) for view in graph.regions[0].blocks[0].operations)
    return {name for op in ops if host.Launch.matches(op) for name in launched_kernels(op)}


def largest(launches: Sequence[Launch], sizes: Sequence[Number]) -> list[int]:
    """An estimate of a kernel's `sizes` in the launch with the most work."""
    known = [[hint(launch.size(n)) for n in sizes] for launch in launches]
    return max(known, key=math.prod, default=[hint(n) for n in sizes])


def traced_parameters(launches: Sequence[Launch]) -> dict[str, int]:
    """An estimate of a kernel's parameters in the launch where their product is largest."""
    known = [{name: hint(value) for name, value in launch.parameters.items()} for launch in launches]
    return max(known, key=lambda values: math.prod(values.values()), default={})


def common_divisor(numbers: Iterable[Number], limit: int) -> int:
    """The largest divisor of `limit`, a power of two, that divides all numbers in every call. The arena is aligned."""
    found = limit
    for number in numbers:
        arena = {name: ALIGNMENT for name in symbols(number) if name[0] == "a" and name[1:].isdigit()}
        found = math.gcd(found, divisor_of(number, arena))
    return found


#: The largest i32, less the largest block: positions of a block may exceed the last existing one by that much.
_LARGEST = (1 << 31) - 1 - (1 << 20)


def is_wide(launches: Sequence[Launch], counts: Sequence[Number]) -> bool:
    """Whether counts of a kernel need i64 in some launch. If not in the traced call, that becomes a guard."""
    counted = dict.fromkeys(launch.size(count) for launch in launches for count in counts)
    return any(hint(count) > _LARGEST for count in counted) or any(count > _LARGEST for count in counted)
