"""Declares ops that take any number of operands of mixed types: calls, launches.

IRDL gives a variadic operand group one type variable, so all operands of the group would need the same type.
Therefore these ops are unknown to MLIR itself (the context allows that). They are declared here and checked by
`cuesta.dialects.verify`, which also refuses every undeclared op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import UnionType

from cuesta._mlir import ir

OPEN_OPS: dict[str, OpenOp] = {}


@dataclass(frozen=True)
class OpenOp:
    """One op by its full name, with its required attributes and what each must be."""

    name: str
    attributes: dict[str, type | UnionType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.name not in OPEN_OPS, f"two ops named {self.name}"
        OPEN_OPS[self.name] = self

    def __call__(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Type], **attributes: ir.Attribute
    ) -> ir.Operation:
        """Builds the op at the current insertion point."""
        return ir.Operation.create(self.name, results=list(results), operands=list(operands), attributes=attributes)

    def problem(self, op: ir.Operation) -> str | None:
        """What is wrong with the attributes of `op`, or None."""
        for name, kind in self.attributes.items():
            if name not in op.attributes:
                return f"lacks the attribute {name!r}; it takes {', '.join(self.attributes)}"
            if not isinstance(op.attributes[name], kind):
                return f"attribute {name!r} must be of {getattr(kind, '__name__', kind)}, got {op.attributes[name]}"
        return None
