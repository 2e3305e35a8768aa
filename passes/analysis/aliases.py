"""Which values share memory by torch's rules: views, what they are views of, and whether a view is returned."""

from __future__ import annotations

from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.passes.infra.graph_rewrite import users

Value: TypeAlias = ir.Value

#: Ops that give another view of their operand's memory.
VIEWS = frozenset(
    {
        *("cuesta.reshape", "cuesta.permute", "cuesta.expand", "cuesta.slice", "cuesta.unfold"),
        *("cuesta.view_as_real", "cuesta.view_as_complex"),
    }
)


def root_of(value: Value) -> Value:
    """What a view is a view of, through views of views."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def returning(value: Value) -> list[ir.Operation]:
    """The users of a value that return it or make a view of it that is returned. Where there are several, the results
    are one memory to the caller, and the value must not be computed for each."""
    return [op for op in users(value) if op.name == "func.return" or (op.name in VIEWS and returning(op.results[0]))]
