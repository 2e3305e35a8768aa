"""Gives smaller variants of a graph: without an op or a result, or with an argument in place of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import make_context
from cuesta.dialects.graph_function import (
    MUTATES,
    STORAGE,
    STRIDES,
    argument_attributes,
    result_attributes,
    set_argument_attributes,
    set_result_attributes,
)
from cuesta.dialects.reference import find_function
from cuesta.dialects.types import row_major, shape_of
from cuesta.dialects.upstream_fields import FUNCTION_TYPE
from cuesta.passes.infra.graph_rewrite import is_unused

Value: TypeAlias = ir.Value


def smaller_graphs(text: str) -> Iterator[str]:
    """Variants with fewer ops, or as many in a shorter text, the largest steps first. Arguments keep their types."""
    return (smaller for smaller in _variants(text) if _weight(smaller) < _weight(text))


def _weight(text: str) -> tuple[int, int]:
    return text.count('= "'), len(text)


@dataclass
class _Result:
    """One operand of the return; `written` is the number of the argument whose new value this is, or None."""

    value: Value
    attributes: ir.DictAttr
    written: int | None


class _Graph:
    """A graph that edits change, in the current MLIR context."""

    def __init__(self, text: str) -> None:
        self.module = ir.Module.parse(text)
        self.function = find_function(self.module, "graph")
        self.entry = self.function.regions[0].blocks[0]
        self.attributes = list(argument_attributes(self.function))
        mutates = MUTATES.find(self.function) or []
        values = list(self.terminator.operands)
        written = [None] * (len(values) - len(mutates)) + mutates
        self.results = [_Result(*each) for each in zip(values, result_attributes(self.function), written, strict=True)]

    @property
    def terminator(self) -> ir.Operation:
        return list(self.entry.operations)[-1].operation

    @property
    def ops(self) -> list[ir.Operation]:
        return [op.operation for op in self.entry.operations][:-1]

    def add_argument(self, value: Value) -> None:
        """Replaces `value` by a new argument."""
        argument = self.entry.add_argument(value.type, ir.Location.unknown())
        self.attributes.append(ir.DictAttr.get(STRIDES.entry(list(row_major(shape_of(value))))))
        self.replace(value, argument)

    def replace(self, value: Value, other: Value) -> None:
        value.replace_all_uses_with(other)
        for result in self.results:
            result.value = other if result.value == value else result.value

    def text(self) -> str:
        """The text of the graph, without unused ops and arguments."""
        self.terminator.erase()
        with ir.InsertionPoint(self.entry):
            func.ReturnOp([r.value for r in self.results])
        for op in reversed(self.ops):
            if all(is_unused(r) for r in op.results):
                op.erase()
        self._erase_arguments()
        kinds = [a.type for a in self.entry.arguments], [r.value.type for r in self.results]
        FUNCTION_TYPE.put(self.function, ir.FunctionType.get(*kinds))
        set_argument_attributes(self.function, self.attributes)
        set_result_attributes(self.function, [r.attributes for r in self.results])
        MUTATES.drop(self.function)
        written = [r.written for r in self.results if r.written is not None]
        if written:
            MUTATES.put(self.function, written)
        return str(self.module)

    def _erase_arguments(self) -> None:
        for i in reversed(range(len(self.entry.arguments))):
            if not is_unused(self.entry.arguments[i]) or any(r.written == i for r in self.results):
                continue
            self.entry.erase_argument(i)
            del self.attributes[i]
            for result in self.results:
                if result.written is not None and result.written > i:
                    result.written -= 1
                result.attributes = _renumbered(result.attributes, i)


def _renumbered(attributes: ir.DictAttr, erased: int) -> ir.DictAttr:
    """A result's attributes after argument `erased` is gone: a storage number above `erased` decreases by one."""
    storage = STORAGE.in_(attributes)
    if storage <= erased:
        return attributes
    return ir.DictAttr.get({a.name: a.attr for a in attributes} | STORAGE.entry(storage - 1))


def _variants(text: str) -> Iterator[str]:
    with make_context(), ir.Location.unknown():
        graph = _Graph(text)
        results, ops = range(len(graph.results)), range(len(graph.ops))
    edits: list[tuple[Callable[..., bool], *tuple[int, ...]]] = []
    if len(results) > 1:
        edits += [(_drop_result, i) for i in results]
    edits += [(_return_operand, i, j) for i in results for j in range(3)]
    edits += [(_skip_op, i) for i in ops]
    edits += [(_cut_above, i) for i in reversed(ops)]
    for edit, *where in edits:
        with make_context(), ir.Location.unknown():
            graph = _Graph(text)
            if edit(graph, *where):
                yield graph.text()


def _drop_result(graph: _Graph, i: int) -> bool:
    del graph.results[i]
    return True


def _return_operand(graph: _Graph, i: int, j: int) -> bool:
    """Replaces result i by operand j of the op that defines it."""
    result = graph.results[i]
    owner = result.value.owner
    if isinstance(owner, ir.Block) or j >= len(owner.operands) or result.written is not None:
        return False
    result.value = owner.operands[j]
    entries = {a.name: a.attr for a in result.attributes}
    strides = STRIDES.entry(list(row_major(shape_of(result.value))))
    result.attributes = ir.DictAttr.get(entries | strides)
    return True


def _skip_op(graph: _Graph, i: int) -> bool:
    """Replaces the result of op i by an operand of the same type, if there is one."""
    op = graph.ops[i]
    alike = [x for x in op.operands if len(op.results) == 1 and x.type == op.results[0].type]
    if alike:
        graph.replace(op.results[0], alike[0])
    return bool(alike)


def _cut_above(graph: _Graph, i: int) -> bool:
    """Replaces the results of op i by arguments, so that the ops that compute the results become unused."""
    op = graph.ops[i]
    for result in op.results if op.operands else ():
        if not is_unused(result):
            graph.add_argument(result)
    return bool(op.operands)
