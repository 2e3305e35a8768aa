"""Takes Max and Min out of torch's expressions of sizes; these are sympy's, which this does not import.

Max(1, s0 - 1)  →  s0 - 1    # where torch's bounds say that s0 is at least 2
"""

from __future__ import annotations

from typing import Any


def decided(node: Any) -> tuple[Any, list[Any]]:
    """The expression of a SymNode with each Max and Min replaced by the argument that it is in every call, where one
    is; and the differences that are not negative for that."""
    known: list[Any] = []

    def chosen(extreme: Any) -> Any:
        for one in extreme.args:
            differences = [one - other if type(extreme).__name__ == "Max" else other - one for other in extreme.args]
            if all(node.shape_env.bound_sympy(d).lower >= 0 for d in differences):
                known.extend(differences)
                return one
        return extreme

    return node.expr.replace(lambda e: type(e).__name__ in ("Max", "Min"), chosen), known


def without_ones(expression: Any) -> Any:
    """The expression with each `Max(1, x)` replaced by x."""

    def other(maximum: Any) -> Any:
        others = [a for a in maximum.args if a != 1]
        return others[0] if len(others) == 1 else maximum

    return expression.replace(lambda e: type(e).__name__ == "Max", other)
