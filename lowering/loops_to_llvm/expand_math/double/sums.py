"""Computes sums and products of f64 together with their rounding errors: numbers in two doubles, (high, low)."""

from __future__ import annotations

from typing import TypeAlias

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Operand, Value

Sum: TypeAlias = tuple[Operand, Operand]


def exact_sum(b: Builder, x: Operand, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error, for any two numbers (Knuth)."""
    total = b.add(x, y)
    part = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, part)), b.sub(y, part))


def ordered_sum(b: Builder, large: Operand, small: Value) -> tuple[Value, Value]:
    """large + small and its rounding error, where large is 0 or exceeds small (Dekker)."""
    total = b.add(large, small)
    return total, b.add(b.sub(large, total), small)


def product(b: Builder, x: Sum, y: Sum) -> tuple[Value, Value]:
    high = b.mul(x[0], y[0])
    low = b.fma(x[0], y[0], b.neg(high))
    return high, b.fma(x[0], y[1], b.fma(x[1], y[0], low))
