"""Rewrites the formula of a layer norm as one op.

    %m = mean(%x)
    %v = mean((%x - %m)²)                                →   %y, _, _ = cuesta.layer_norm(%x, %w, %b) {eps = 1e-5}
    %y = (%x - %m) / sqrt(%v + 1e-5) * %w + %b

The norm is over the last dims, with sqrt or rsqrt, with or without weight and bias. Formulas with the
unbiased variance, or with eps outside the root, are other norms and stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.cuesta import normalisation, pointwise, reduction
from cuesta.dialects.cuesta.dialect import Operation
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.fields import float_attr, int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.analysis.match import multiple, number, only_user, wide
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, replace, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
_ADD, _SUB, _MUL, _DIV = (pointwise.OPS[name] for name in ("add", "sub", "mul", "div"))
_SQUARE, _SQRT, _RSQRT = (pointwise.OPS[name] for name in ("square", "sqrt", "rsqrt"))


@dataclass
class _Reader:
    """Matches means, centred values and variances; `ops` collects the ops that are matched."""

    ops: set[ir.Operation] = field(default_factory=set)

    def above(self, value: ir.Value, *kinds: type[Operation]) -> ir.Operation | None:
        """The op that produces `value`, above conversions, if it is of one of these classes; else None."""
        source = wide(value)
        while value != source and (op := maker(value)) is not None:
            self.ops.add(op)
            value = op.operands[0]
        op = maker(source)
        if op is None or not any(kind.matches(op) for kind in kinds):
            return None
        self.ops.add(op)
        return op

    def mean(self, value: ir.Value) -> tuple[ir.Value, int] | None:
        """(x, r) where `value` is the mean of x over its last r dims, with keepdim."""
        if self.above(value, _DIV, _MUL) is None:
            return None
        scaled = multiple(wide(value))
        total = None if scaled is None else self.above(scaled[1], reduction.OPS["sum"])
        if scaled is None or total is None or not Reduced.keepdim.of(total):
            return None
        x, dims = total.operands[0], Reduced.dims.of(total)
        sizes = shape_of(x)
        if dims != list(range(len(sizes) - len(dims), len(sizes))):
            return None
        count = math.prod(sizes[d] for d in dims)
        known = isinstance(count, int) and math.isclose(scaled[0] * count, 1, rel_tol=1e-12)
        return (x, len(dims)) if known else None

    def centred(self, value: ir.Value) -> tuple[ir.Value, int] | None:
        """(x, r) where `value` is x minus its mean over its last r dims."""
        op = self.above(value, _SUB)
        found = None if op is None else self.mean(op.operands[1])
        if op is None or found is None or wide(found[0]) != wide(op.operands[0]):
            return None
        return op.operands[0], found[1]

    def variance(self, value: ir.Value) -> tuple[ir.Value, int] | None:
        """(x, r) where `value` is the biased variance (no correction) of x over its last r dims."""
        found = self.mean(value)
        square = None if found is None else self.above(found[0], _SQUARE, _MUL)
        if found is None or square is None or (_MUL.matches(square) and len(set(square.operands)) > 1):
            return None
        inner = self.centred(square.operands[0])
        return inner if inner is not None and inner[1] == found[1] else None


def _with_eps(value: ir.Value, reader: _Reader) -> tuple[ir.Value, float] | None:
    """(variance, eps) where `value` is their sum."""
    op = reader.above(value, _ADD)
    if op is None:
        return None
    x, y = op.operands
    if number(y) is None:
        x, y = y, x
    eps = number(y)
    return None if eps is None else (x, eps)


def _norm(root: ir.Operation) -> bool:
    """Replaces the layer norm around a square root; False where there is none."""
    reader = _Reader({root})
    under = _with_eps(root.operands[0], reader)
    found = None if under is None else reader.variance(under[0])
    (scale,) = root.results
    user = only_user(scale)
    while user is not None and Convert.matches(user) and wide(user.results[0]) != user.results[0]:
        reader.ops.add(user)
        (scale,) = user.results
        user = only_user(scale)
    wanted = _MUL if _RSQRT.matches(root) else _DIV
    if under is None or found is None or user is None or not wanted.matches(user):
        return False
    x, y = user.operands
    if wanted is _MUL and x == scale:
        x, y = y, x
    centred = reader.centred(x)
    if y != scale or centred is None or (wide(centred[0]), centred[1]) != (wide(found[0]), found[1]):
        return False
    # No other op may use the values in between: a training graph saves some of them.
    inside = reader.ops | {user}
    if any(u not in inside for op in reader.ops for r in op.results for u in users(r)):
        return False
    _replace(user, centred[0], centred[1], under[1])
    return True


def _replace(last: ir.Operation, x: ir.Value, rank: int, eps: float) -> None:
    """Puts a layer norm of x in the place of `last` and of a following weight (mul) and bias (add)."""
    sizes, kind = shape_of(x), spelling_of(x)
    normalised = sizes[len(sizes) - rank :]
    weight = bias = None
    if opmath(kind) == kind:  # a narrow type rounds before each of the two
        last, weight = _parameter(last, _MUL, normalised, sizes)
        last, bias = _parameter(last, _ADD, normalised, sizes)
    with ir.InsertionPoint(last), named("layer_norm", last):
        weight = _B.constant(1, kind, normalised) if weight is None else _B.reshape(weight, normalised)
        bias = _B.constant(0, kind, normalised) if bias is None else _B.reshape(bias, normalised)
        statistics = types.tensor([*sizes[: len(sizes) - rank], *[1] * rank], opmath(kind))
        op = normalisation.LayerNorm(
            x, weight, bias, int_attr(rank), float_attr(eps), x.type, statistics, statistics
        ).operation
    replace(last, [op.results[0]])


def _parameter(
    last: ir.Operation, kind: type[Operation], normalised: tuple[Number, ...], sizes: tuple[Number, ...]
) -> tuple[ir.Operation, ir.Value | None]:
    """(the op after `last` that applies a parameter of the normalised shape, the parameter), or (last, None)."""
    (value,) = last.results
    user = only_user(value)
    if user is None or not kind.matches(user) or shape_of(user.results[0]) != sizes:
        return last, None
    x, y = user.operands
    parameter = y if x == value else x
    padded = (1,) * (len(sizes) - len(shape_of(parameter))) + shape_of(parameter)
    fits = padded == (1,) * (len(sizes) - len(normalised)) + normalised
    return (user, parameter) if fits else (last, None)


@register_pass("recognise-layer-norm")
class RecogniseLayerNorm(Pass):
    """Rewrites means, a root and a quotient as one layer norm."""

    def run(self, module: ir.Module) -> None:
        changed = False
        for function in functions(module):
            for op in list(function.regions[0].blocks[0].operations):
                if _SQRT.matches(op.operation) or _RSQRT.matches(op.operation):
                    changed = _norm(op.operation) or changed
        if changed:
            erase_dead(module)
