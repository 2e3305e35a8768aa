"""Reads symbolic sizes from the text that they print."""

from __future__ import annotations

import ast
import functools

from cuesta.sizes.polynomial import Number, symbol
from cuesta.sizes.rules import Rules, current


def parse(text: str) -> Number:
    """The number that prints as `text`. Raises ValueError for any other text."""
    return _parsed(text, current())


@functools.lru_cache(maxsize=4096)
def _parsed(text: str, rules: Rules) -> Number:
    try:
        return _built(ast.parse(text, mode="eval").body)
    except (SyntaxError, ZeroDivisionError):
        raise ValueError(f"{text!r} is not a size: sums, products, // and % of numbers and names are") from None


def _built(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return symbol(name) + 0  # a sum follows the rules, by which a symbol may be a number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_built(operand)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _built(left), _built(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise SyntaxError
