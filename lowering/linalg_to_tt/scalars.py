"""Builds the scalar numbers of one program: constants, and sizes that the launch passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.sizes import Number, Size, compute
from cuesta.sizes.facts import divisor_of


@dataclass(frozen=True)
class Scalars:
    """Builds numbers at the current insertion point; none of them is negative."""

    #: Type of sizes, positions and offsets: i32 where every tensor is small enough.
    kind: ir.Type
    #: The kernel's parameters p0, p1, …, and what each is a multiple of in every launch.
    given: Mapping[str, ir.Value] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)

    def of(self, number: Number) -> ir.Value:
        """A number as a scalar of type `kind`."""
        return compute(number, self.given, self)

    def block(self, number: Number, shape: list[int]) -> ir.Value:
        """A block of equal numbers of type `kind`."""
        return tt.splat(self.of(number), shape) if isinstance(number, Size) else tt.full(shape, self.kind, number)

    def divides(self, divisor: int, number: Number) -> bool:
        """Whether `divisor` is known to divide the number in every launch."""
        return divisor_of(number, self.multiples) % divisor == 0

    # -- arithmetic, for `compute` -------------------------------------------------------------
    def constant(self, number: int) -> ir.Value:
        return tt.constant(number, self.kind)

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.addi(x, y)

    def multiply(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.muli(x, y)

    def divide(self, x: ir.Value, y: ir.Value, rest: bool) -> ir.Value:
        return arith.remsi(x, y) if rest else arith.divsi(x, y)
