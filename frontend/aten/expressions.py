"""Lets rules write formulas over values of the graph as Python expressions: `x * y - 1`, `where(x > y, x, y)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import spelling_of


def _operator(name: str) -> Callable[[Expression, Operand], Expression]:
    """Python's operator for the pointwise op `name`."""
    return lambda x, y: x.of(name, y)


def _reflected(name: str) -> Callable[[Expression, float], Expression]:
    """The same for a number on the left."""
    return lambda x, y: x.number(y).of(name, x)


@dataclass(frozen=True, eq=False)
class Expression:
    """A value, and the builder of ops on it. Operands are expressions of the same type, or numbers."""

    b: GraphBuilder
    value: Value

    def of(self, name: str, *operands: Operand) -> Expression:
        """The pointwise op `name` on this value and `operands`."""
        return Expression(self.b, self.b.pointwise(name, self.value, *(self.number(y).value for y in operands)))

    def number(self, y: Operand) -> Expression:
        """`y` as an expression; a number becomes a constant of this value's type."""
        return y if isinstance(y, Expression) else Expression(self.b, self.b.constant(y, spelling_of(self.value)))

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __gt__, __lt__, __ge__ = _operator("gt"), _operator("lt"), _operator("ge")
    __and__, __or__ = _operator("logical_and"), _operator("logical_or")

    def __neg__(self) -> Expression:
        return self.of("neg")

    def __abs__(self) -> Expression:
        return self.of("abs")

    def equals(self, y: Operand) -> Expression:
        """Element-wise equality with `y`. `==` is not overloaded: it compares expressions by identity."""
        return self.of("eq", y)


Operand: TypeAlias = Expression | float


def where(condition: Expression, x: Expression, y: Operand) -> Expression:
    """`condition ? x : y`."""
    return Expression(x.b, x.b.where(condition.value, x.value, x.number(y).value))
