"""Rewrites a graph function in place, op by op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.cuesta.random import Dropout
from cuesta.dialects.fields import int_attr
from cuesta.dialects.graph_function import REMARKS

#: A rule builds ops before `op` and returns the values that replace its results, or None to leave `op`.
Rule = Callable[[ir.Operation], Sequence[ir.Value | None] | None]


def functions(module: ir.Module) -> Iterator[func.FuncOp]:
    """The functions at the top of a module that have a body."""
    for op in module.body.operations:
        if isinstance(op, func.FuncOp) and not op.is_external:
            yield op


def rewrite_ops(module: ir.Module, rules: dict[str, Rule], *, users_first: bool = False) -> None:
    """Applies to each op the rule for its name, once, operands before users or the other way round. Ops that a rule
    builds are not visited."""
    with module.context:
        for function in functions(module):
            ops = list(function.regions[0].blocks[0].operations)
            for op in reversed(ops) if users_first else ops:
                rule = rules.get(op.operation.name)
                if rule is None:
                    continue
                with ir.InsertionPoint(op), op.location:
                    replacement = rule(op.operation)
                if replacement is not None:
                    replace(op.operation, replacement)


def replace(op: ir.Operation, values: Sequence[ir.Value | None]) -> None:
    """Erases `op` after handing its uses to `values`; None stands for a result without uses."""
    for result, value in zip(op.results, values, strict=True):
        if value is not None:
            result.replace_all_uses_with(value)
    op.erase()


def is_unused(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is None


def users(value: ir.Value) -> list[ir.Operation]:
    """The operations that use a value, one entry per use."""
    return [use.owner.operation for use in value.uses]


def first_of(ops: Sequence[ir.Operation]) -> ir.Operation:
    """The first of some ops of one block in program order, in which `users` does not give them."""
    return functools.reduce(lambda a, b: b if b.is_before_in_block(a) else a, ops)


def erase_dead(module: ir.Module) -> None:
    """Erases ops of the cuesta dialect whose results nobody uses, but for `cuesta.dropout`."""
    for function in functions(module):
        for op in reversed(list(function.regions[0].blocks[0].operations)):
            operation = op.operation
            dead = Cuesta.owns(operation) and all(is_unused(r) for r in operation.results)
            if dead and not Dropout.matches(operation):
                operation.erase()


def named(name: str, op: ir.Operation) -> ir.Location:
    """The location of an op that replaces several, the last of which is `op`. The report calls the new op `name`."""
    return ir.Location.name(name, op.location)


def remark(producer: ir.Operation, consumer: ir.Operation, reason: str, byte_count: int) -> None:
    """Records on the function, for the report, why two ops are not combined, and the bytes that this costs."""
    function = producer.parent
    row = {
        "producer": ir.StringAttr.get(producer.name.partition(".")[2]),
        "consumer": ir.StringAttr.get(consumer.name.partition(".")[2]),
        "reason": ir.StringAttr.get(reason),
        "bytes": int_attr(byte_count),
    }
    earlier = REMARKS.find(function) or []
    REMARKS.put(function, ir.ArrayAttr.get([*earlier, ir.DictAttr.get(row)]))
