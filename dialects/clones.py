"""Copies ops and replaces their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir

Value: TypeAlias = ir.Value


def repeat_op(op: ir.Operation, operands: Sequence[Value], kind: ir.Type) -> ir.Operation:
    """An op without regions that does to `operands` what `op`, which has one result, does to its own. `kind` is the
    type of the result."""
    attributes = dict(op.attributes.items())
    return ir.Operation.create(op.name, results=[kind], operands=list(operands), attributes=attributes)


def clone_op(op: ir.Operation, mapping: dict[Value, Value], kinds: Sequence[ir.Type] | None = None) -> ir.Operation:
    """Copies an op with its regions. Replaces operands that are in `mapping`, and enters the results into `mapping`.
    `kinds` are the types of the results, by default the same."""
    copy = ir.Operation.create(
        op.name,
        results=[r.type for r in op.results] if kinds is None else list(kinds),
        operands=[mapping.get(v, v) for v in op.operands],
        attributes=dict(op.attributes.items()),
        regions=len(op.regions),
    )
    mapping.update(zip(op.results, copy.results, strict=True))
    for old, new in zip(op.regions, copy.regions, strict=True):
        for block in old.blocks:
            fresh = new.blocks.append(*[a.type for a in block.arguments])
            mapping.update(zip(block.arguments, fresh.arguments, strict=True))
            with ir.InsertionPoint(fresh):
                for inner in block.operations:
                    clone_op(inner.operation, mapping)
    return copy
