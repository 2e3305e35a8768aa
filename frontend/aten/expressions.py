"""Lets rules write formulas over values of the graph as Python expressions: `x * y - 1`, `where(x > y, x, y)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import spelling_of


@dataclass(frozen=True, eq=False)
class Expression:
    """A value, and the builder of ops on it. Operands are expressions of the same type, or numbers."""

    b: GraphBuilder
    value: ir.Value

    def of(self, name: str, *operands: Operand) -> Expression:
        """The pointwise op `name` on this value and `operands`."""
        return Expression(self.b, self.b.pointwise(name, self.value, *(self.number(y).value for y in operands)))

    def number(self, y: Operand) -> Expression:
        """`y` as an expression; a number becomes a constant of this value's type."""
        return y if isinstance(y, Expression) else Expression(self.b, self.b.constant(y, spelling_of(self.value)))

    def __add__(self, y: Operand) -> Expression:
        return self.of("add", y)

    def __sub__(self, y: Operand) -> Expression:
        return self.of("sub", y)

    def __mul__(self, y: Operand) -> Expression:
        return self.of("mul", y)

    def __truediv__(self, y: Operand) -> Expression:
        return self.of("div", y)

    def __radd__(self, y: float) -> Expression:
        return self.number(y) + self

    def __rsub__(self, y: float) -> Expression:
        return self.number(y) - self

    def __rmul__(self, y: float) -> Expression:
        return self.number(y) * self

    def __rtruediv__(self, y: float) -> Expression:
        return self.number(y) / self

    def __neg__(self) -> Expression:
        return self.of("neg")

    def __abs__(self) -> Expression:
        return self.of("abs")

    def __gt__(self, y: Operand) -> Expression:
        return self.of("gt", y)

    def __lt__(self, y: Operand) -> Expression:
        return self.of("lt", y)

    def __ge__(self, y: Operand) -> Expression:
        return self.of("ge", y)

    def __and__(self, y: Expression) -> Expression:
        return self.of("logical_and", y)

    def __or__(self, y: Expression) -> Expression:
        return self.of("logical_or", y)

    def equals(self, y: Operand) -> Expression:
        """Element-wise equality with `y`. `==` is not overloaded: it compares expressions by identity."""
        return self.of("eq", y)


Operand: TypeAlias = Expression | float


def where(condition: Expression, x: Expression, y: Operand) -> Expression:
    """`condition ? x : y`."""
    return Expression(x.b, x.b.where(condition.value, x.value, x.number(y).value))
