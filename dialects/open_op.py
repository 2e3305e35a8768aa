"""Declares ops that take any number of operands of mixed types: calls, launches.

    class Launch(OpenOp, name="host.launch"):
        kernel: Symbol
        outputs: Int                               Launch.outputs.of(op) → 1
        parameters: Annotated[Numbers, OPTIONAL]   Launch.build(operands, results, kernel="gelu", outputs=1)

IRDL gives a variadic operand group one type variable, so all operands of the group would need the same type.
Therefore these ops are unknown to MLIR itself (the context allows that). They are declared here and checked by
`cuesta.dialects.verify`, which also refuses every undeclared op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_type_hints

from cuesta._mlir import ir
from cuesta.dialects.fields import Field, field_of, is_optional

OPEN_OPS: dict[str, type[OpenOp]] = {}


class OpenOp:
    """The base of these ops: a class lists the attributes of one op, whose full name it is given."""

    OPERATION_NAME: ClassVar[str] = ""
    #: The attributes by name.
    FIELDS: ClassVar[dict[str, Field[Any]]] = {}
    #: The names of the attributes that every such op has.
    REQUIRED: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, name: str = "") -> None:
        """Without a name, the class holds what several ops have in common."""
        hints = get_type_hints(cls, include_extras=True)
        kinds = {key: kind for key, hint in hints.items() if (kind := field_of(hint)) is not None}
        cls.FIELDS = {key: kind(key) for key, kind in kinds.items()}
        cls.REQUIRED = tuple(key for key in kinds if not is_optional(hints[key]))
        for attribute, reader in cls.FIELDS.items():
            setattr(cls, attribute, reader)
        if name:
            assert name not in OPEN_OPS, f"two ops named {name}"
            cls.OPERATION_NAME = name
            OPEN_OPS[name] = cls

    @classmethod
    def matches(cls, op: ir.Operation) -> bool:
        """Whether `op` is one of these."""
        return op.name == cls.OPERATION_NAME

    @classmethod
    def build(
        cls,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type] = (),
        copied: Mapping[str, ir.Attribute] | None = None,
        regions: int = 0,
        **values: Any,
    ) -> ir.Operation:
        """Builds the op, with so many empty regions, at the current insertion point. Attributes are given as Python
        values by their names, but for those that are `copied` from another op; a value of None stands for no
        attribute."""
        given = {name: cls.FIELDS[name].write(value) for name, value in values.items() if value is not None}
        return ir.Operation.create(
            cls.OPERATION_NAME,
            results=list(results),
            operands=list(operands),
            attributes={**(copied or {}), **given},
            regions=regions,
        )

    @classmethod
    def problem(cls, op: ir.Operation) -> str | None:
        """What is wrong with the attributes of `op`, or None."""
        attributes = op.attributes
        for name in cls.REQUIRED:
            kind = cls.FIELDS[name].kind
            if name not in attributes:
                return f"lacks the attribute {name!r}; it takes {', '.join(cls.REQUIRED)}"
            if not isinstance(attributes[name], kind):
                return f"attribute {name!r} must be of {getattr(kind, '__name__', kind)}, got {attributes[name]}"
        return None
