"""Rewrites the formula of gelu as one op, however the formula is spelled.

    %1 = cuesta.erf(%0 / 1.4142…)
    %2 = %0 * 0.5 * (%1 + 1)        →   %2 = cuesta.gelu(%0)

    %1 = cuesta.tanh(0.7978… * (%0 + 0.044715 * %0 * %0 * %0))
    %2 = %0 * 0.5 * (%1 + 1)        →   %2 = cuesta.gelu_tanh(%0)

The argument of erf or tanh is a polynomial in x; the result is a polynomial in x and the erf or tanh. Comparing
coefficients matches every order of terms and factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import number, only_user, wide
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, replace, users
from cuesta.passes.infra.registry import Pass, register_pass

#: powers of x and of the erf or tanh → coefficient
Polynomial: TypeAlias = dict[tuple[int, int], float]

_B = GraphBuilder()
#: Erf or tanh → the gelu that it is in, and the polynomial of its operand.
_ARGUMENTS: dict[str, tuple[str, Polynomial]] = {
    pointwise.OPS["erf"].OPERATION_NAME: ("gelu", {(1, 0): math.sqrt(0.5)}),
    pointwise.OPS["tanh"].OPERATION_NAME: (
        "gelu_tanh",
        {(1, 0): math.sqrt(2 / math.pi), (3, 0): math.sqrt(2 / math.pi) * 0.044715},
    ),
}
_X: Polynomial = {(1, 0): 1.0}
_T: Polynomial = {(0, 1): 1.0}
_RESULT: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
_ADD, _SUB, _MUL, _DIV = (pointwise.OPS[name] for name in ("add", "sub", "mul", "div"))
_SQUARE, _NEG, _POW = (pointwise.OPS[name] for name in ("square", "neg", "pow"))
_ARITHMETIC = names_of(_ADD, _SUB, _MUL, _DIV, _SQUARE, _NEG, _POW, Convert)
#: How far a coefficient may be off, relative to its value: the rounding of the type.
_TOLERANCE = {"f64": 1e-14, "f32": 5e-7, "bf16": 1e-4, "f16": 1e-4}
#: Ops between the erf or tanh and the result, and values above an argument, in the longest spelling.
_STEPS, _VALUES = 6, 16


@dataclass
class _Reader:
    """Reads values as polynomials in the `variables`; `ops` collects the ops in between."""

    variables: dict[ir.Value, Polynomial]
    ops: set[ir.Operation] = field(default_factory=set)

    def read(self, value: ir.Value, depth: int = 0) -> Polynomial | None:
        """The value as a polynomial; None where it is none, or is nested more deeply than any spelling of gelu."""
        if value in self.variables:
            return self.variables[value]
        if (constant := number(value)) is not None:
            return {(0, 0): constant}
        op = maker(value)
        if op is None or op.name not in _ARITHMETIC or depth > _STEPS + 2:
            return None
        if Convert.matches(op) and wide(value) == value:
            return None
        if wide(value) not in self.variables or self.variables[wide(value)] != _X:
            self.ops.add(op)  # x itself in another type may have other users
        if Convert.matches(op):
            return self.read(op.operands[0], depth)
        first = self.read(op.operands[0], depth + 1)
        if first is None:
            return None
        if _SQUARE.matches(op):
            return _product(first, first)
        if _NEG.matches(op):
            return _product(first, {(0, 0): -1.0})
        second = self.read(op.operands[1], depth + 1)
        return None if second is None else _combine(op, first, second)


def _combine(op: ir.Operation, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """What an op with the operands a and b computes; None if that is no polynomial, or no term of gelu's."""
    if _ADD.matches(op) or _SUB.matches(op):
        sign = 1.0 if _ADD.matches(op) else -1.0
        return {p: a.get(p, 0.0) + sign * b.get(p, 0.0) for p in {*a, *b}}
    if _MUL.matches(op):
        return _product(a, b)
    if set(b) != {(0, 0)}:
        return None
    constant = b[0, 0]
    if _DIV.matches(op):
        return _product(a, {(0, 0): 1 / constant}) if constant else None
    return _product(a, _product(a, a)) if constant == 3 else None


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for (i, j), x in a.items():
        for (k, m), y in b.items():
            result[i + k, j + m] = result.get((i + k, j + m), 0.0) + x * y
    return result


def _same(a: Polynomial | None, b: Polynomial, kind: str) -> bool:
    if a is None:
        return False
    kept = {p for p, x in a.items() if x != 0}
    return kept == set(b) and all(math.isclose(a[p], b[p], rel_tol=_TOLERANCE[kind]) for p in b)


def _candidates(argument: ir.Value) -> Iterator[ir.Value]:
    """What x may be: the values above the argument, nearest first."""
    pending, seen = [argument], 0
    while pending and seen < _VALUES:
        value = wide(pending.pop(0))
        seen += 1
        if number(value) is not None:
            continue
        yield value
        op = maker(value)
        if op is not None and op.name in _ARITHMETIC:
            pending += op.operands


def _gelu(curve: ir.Operation) -> bool:
    """Replaces the gelu around an erf or tanh; False where there is none."""
    name, wanted = _ARGUMENTS[curve.name]
    (t,), argument, kind = curve.results, curve.operands[0], spelling_of(curve.results[0])
    for x in _candidates(argument):
        below = _Reader({x: _X})
        if not _same(below.read(argument), wanted, kind):
            continue
        value = t
        for _ in range(_STEPS):
            op = only_user(value)
            if op is None or op.name not in _ARITHMETIC:
                return False
            (value,) = op.results
            above = _Reader({x: _X, t: _T})
            if _same(above.read(value), _RESULT, spelling_of(value)):
                inside = {*below.ops, *above.ops, curve} - {op}
                return _closed(inside, op) and _replace(op, name, x)
    return False


def _closed(inside: set[ir.Operation], last: ir.Operation) -> bool:
    """Whether no other op uses the intermediate results of `inside` (a training graph saves some of them)."""
    return all(user in inside or user == last for op in inside for r in op.results for user in users(r))


def _replace(last: ir.Operation, name: str, x: ir.Value) -> bool:
    (result,) = last.results
    if shape_of(result) != shape_of(x):
        return False
    with ir.InsertionPoint(last), named(name, last):
        gelu = _B.pointwise(name, _B.convert(x, spelling_of(result)))
    replace(last, [gelu])
    return True


@register_pass("recognise-gelu")
class RecogniseGelu(Pass):
    """Rewrites the formula of gelu, with erf or tanh, as one op."""

    def run(self, module: ir.Module) -> None:
        changed = False
        for function in functions(module):
            for op in list(function.regions[0].blocks[0].operations):
                if op.operation.name in _ARGUMENTS:
                    changed = _gelu(op.operation) or changed
        if changed:
            erase_dead(module)
