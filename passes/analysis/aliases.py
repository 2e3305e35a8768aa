"""Tells which values share memory by torch's rules: views, the values that they view, and views that are returned."""

from __future__ import annotations

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.passes.infra.graph_rewrite import users


def alias_root(value: ir.Value) -> ir.Value:
    """The value that a view is a view of, through views of views; any other value is its own root."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def returning(value: ir.Value) -> list[ir.Operation]:
    """The users of a value that return it, or make a view of it that is returned. Where there are several, the caller
    expects results that alias, and the value must be computed only once."""
    return [
        op
        for op in users(value)
        if op.name == func.ReturnOp.OPERATION_NAME or (op.name in VIEWS and returning(op.results[0]))
    ]
