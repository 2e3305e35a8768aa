"""Applies elementwise ops to the parts of a concatenation, not to the whole, so that only the result is written.

    %2 = cuesta.cat(%0, %1) {dim = 1}         %a = cuesta.mul(%0, cuesta.slice(%y))
    %3 = cuesta.mul(%2, %y)             →     %b = cuesta.mul(%1, cuesta.slice(%y))
                                              %3 = cuesta.cat(%a, %b) {dim = 1}

Kernels write parts directly into the concatenation's buffer, but a reader of the whole has to wait for all parts. A
concatenation that other ops read too is in memory anyway, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import aten, maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Cat, Constant, Expand, Flip, Iota
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.form_kernels.placement.concatenation import operands_of
from cuesta.passes.graph.concatenations.free_parts import are_parts_free
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
#: Ops whose result is in memory, or is the same for all parts.
_COSTS_NOTHING = names_of(Cat, Constant, Iota) | {aten.Call.OPERATION_NAME}

#: The most parts of a concatenation: each gets a kernel of its own, or loops of its own.
_MOST = 4


@register_pass("sink-concatenations")
class SinkConcatenations(Pass):
    """Moves concatenations below elementwise ops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                # Down the program: a concatenation that has moved may move again.
                for view in list(function.regions[0].blocks[0].operations):
                    op = view.operation
                    if op.name in POINTWISE or Flip.matches(op):
                        _sink(op)
        erase_dead(module)


def _sink(op: ir.Operation) -> None:
    for x in op.operands:
        cat = maker(x, Cat)
        if cat is None or any(user != op for user in users(x)) or not _is_worth_it(op, cat):
            continue
        parts = _Parts(x, operands_of(cat), Cat.dim.of(cat))
        if len(parts.values) <= _MOST and all(parts.has(value, op) for value in op.operands):
            with ir.InsertionPoint(op), op.location:
                made = parts.flipped(op) if Flip.matches(op) else parts.each(op)
                replace(op, [_B.cat(made, parts.dim)])
            return


def _is_worth_it(op: ir.Operation, cat: ir.Operation) -> bool:
    """Whether the op's result has the concatenation's shape and no wider type. A concatenation of size 1 along its dim
    has only one part, so moving it gains nothing."""
    (x,), (result,) = cat.results, op.results
    if shape_of(x)[Cat.dim.of(cat)] == 1:
        return False
    return shape_of(x) == shape_of(result) and byte_size(spelling_of(result)) <= byte_size(spelling_of(x))


@dataclass
class _Parts:
    """The parts of the concatenation `whole` along `dim`."""

    whole: ir.Value
    values: Sequence[ir.Value]
    dim: int

    def has(self, value: ir.Value, user: ir.Operation) -> bool:
        """Whether reading `value` in parts costs `user` no more than reading the whole: `value` is in memory, is the
        same for all parts, or is computed for `user` alone from such values."""
        return are_parts_free(value, user, _COSTS_NOTHING, lambda x: x == self.whole or self._at(x) is None)

    def each(self, op: ir.Operation) -> list[ir.Value]:
        """The results of a pointwise op, one for each part."""
        made = []
        start: Number = 0
        for value in self.values:
            size = shape_of(value)[self.dim]
            made.append(self._again(op, value, start, size))
            start += size
        return made

    def flipped(self, op: ir.Operation) -> list[ir.Value]:
        """The flipped parts, in reverse order where `dim` is flipped."""
        made = [repeat_op(op, [value], value.type).results[0] for value in self.values]
        return made[::-1] if self.dim in Flip.dims.of(op) else made

    def _at(self, value: ir.Value) -> int | None:
        """The dim of a value that is the concatenated one; None where the value has one element there."""
        sizes = shape_of(value)
        at = len(sizes) - len(shape_of(self.whole)) + self.dim
        return at if at >= 0 and sizes[at] != 1 else None

    def _of(self, value: ir.Value, part: ir.Value, start: Number, size: Number) -> ir.Value:
        """The slice of a value that belongs to a part."""
        if value == self.whole:
            return part
        at, op = self._at(value), maker(value)
        if at is None:
            return value
        if op is not None and op.name in POINTWISE and len(set(users(value))) == 1:
            return self._again(op, part, start, size)
        if op is not None and Expand.matches(op) and self._at(op.operands[0]) is None:
            return _B.expand(op.operands[0], [size if d == at else n for d, n in enumerate(shape_of(value))])
        return _B.slice(value, at, start, size)

    def _again(self, op: ir.Operation, part: ir.Value, start: Number, size: Number) -> ir.Value:
        """Repeats a pointwise op on the slices of its operands that belong to a part."""
        sizes = list(shape_of(op.results[0]))
        at = self._at(op.results[0])
        assert at is not None
        sizes[at] = size
        kind = types.tensor(sizes, spelling_of(op.results[0]))
        operands = [self._of(x, part, start, size) for x in op.operands]
        return repeat_op(op, operands, kind).results[0]
