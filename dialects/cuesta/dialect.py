"""Defines the base of the cuesta dialect, functional tensor ops with ATen's names and meaning.

Ops print in MLIR's generic form, `"cuesta.softmax"(%0) {dim = 1} : …`. Every op carries a
`reference`, a torch function on real tensors, so that a module can be run without a compiler.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import torch

from cuesta._mlir import ext, ir, irdl
from cuesta.dialects.fields import Field, field_of, is_optional


class Cuesta(ext.Dialect, name="cuesta"):
    """Tensors in, tensors out; no op mutates."""

    _bytecode: ClassVar[bytes] = b""

    @classmethod
    def load(cls) -> None:
        """Loads the dialect into the current context, for one thread at a time.

        The bindings take 20 ms to describe 170 ops to MLIR. Contexts after the first one parse that description."""
        if not cls._bytecode:
            super().load()
            written = io.BytesIO()
            cls._mlir_module.operation.write_bytecode(written)
            cls._bytecode = written.getvalue()
            return
        irdl.load_dialects(ir.Module.parse(cls._bytecode))
        for op in cls.operations:
            op._attach_traits()

    @classmethod
    def owns(cls, op: ir.Operation) -> bool:
        """Whether `op` is of this dialect."""
        return op.name.startswith("cuesta.")


#: What an op class declares its operands and results to be; element types are checked by its verifier.
Operand: TypeAlias = ext.Operand[Any]
Result: TypeAlias = ext.Result[Any]


_Base: Any = Cuesta.Operation


class Operation(_Base):
    """The base of every op class. A class lists operands, attributes and results in the order of its builder:

        class Cat(Operation, name="cat", traits=[ext.Pure]):
            x: Operand
            y: Operand
            dim: fields.Int
            result: Result

    An attribute is a `Field`, read by `Cat.dim.of(op)`. An op may lack an attribute that is declared
    `Annotated[Text, OPTIONAL]`.
    """

    if TYPE_CHECKING:  # the bindings take every other annotation for an operand or an attribute
        OPERATION_NAME: ClassVar[str]
        FIELDS: ClassVar[tuple[Field[Any], ...]]
    #: The attributes, those of the base classes too.
    FIELDS = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        hints = cls.__annotations__
        own = {name: kind(name) for name, hint in hints.items() if (kind := field_of(hint)) is not None}
        cls.FIELDS = (*cls.FIELDS, *own.values())
        # The bindings read the annotations, and describe the op to MLIR by them.
        cls.__annotations__ = {
            name: own[name].kind if name in own else hint for name, hint in hints.items() if not is_optional(hint)
        }
        super().__init_subclass__(**keywords)
        for field in cls.FIELDS:
            setattr(cls, field.name, field)

    @classmethod
    def matches(cls, op: ir.Operation) -> bool:
        """Whether `op` is one of these."""
        return op.name == cls.OPERATION_NAME


def names_of(*kinds: type[Operation]) -> frozenset[str]:
    """The names of ops of several classes."""
    return frozenset(kind.OPERATION_NAME for kind in kinds)


Tensor: TypeAlias = torch.Tensor

#: op name (with the dialect's prefix) → (op, operands) → results, run by torch.
REFERENCES: dict[str, Callable[[ir.Operation, list[Tensor]], Any]] = {}

#: op name → a check beyond what the field types say; returns what is wrong, or None.
VERIFIERS: dict[str, Callable[[ir.Operation], str | None]] = {}


def reference(kind: type[Operation]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the op's meaning in torch: `f(op, operands) -> tensor or tuple of tensors`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES[kind.OPERATION_NAME] = function
        return function

    return enter


def verifier(*kinds: type[Operation]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a check of the ops: `f(op) -> str | None`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        VERIFIERS.update((kind.OPERATION_NAME, function) for kind in kinds)
        return function

    return enter
