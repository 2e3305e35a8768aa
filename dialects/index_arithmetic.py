"""Builds sizes as values of type index: `index_of(64 * p0, {"p0": %p})` builds `arith.muli`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from cuesta._mlir import arith, ir
from cuesta.sizes import Number, compute

Value: TypeAlias = ir.Value


class IndexArithmetic:
    """Builds at the current insertion point."""

    def constant(self, number: int) -> Value:
        return arith.constant(ir.IndexType.get(), number)

    def add(self, x: Value, y: Value) -> Value:
        return arith.addi(x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        return arith.muli(x, y)

    def divide(self, x: Value, y: Value, rest: bool) -> Value:
        if not rest:
            return arith.floordivsi(x, y)
        return arith.subi(x, arith.muli(arith.floordivsi(x, y), y))


def index_of(size: Number, values: Mapping[str, Value]) -> Value:
    """The size as a value of type index, given the values of its symbols."""
    return compute(size, values, IndexArithmetic())
