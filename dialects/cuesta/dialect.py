"""Defines the base of the cuesta dialect, functional tensor ops with ATen's names and meaning.

Ops print in MLIR's generic form, `"cuesta.softmax"(%0) {dim = 1} : …`. Every op carries a
`reference`, a torch function on real tensors, so that a module can be run without a compiler.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias

import torch

from cuesta._mlir import ext, ir, irdl
from cuesta.errors import Undecided
from cuesta.sizes import Number, Size, number, parse


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


#: The base of every op class.
Operation: Any = Cuesta.Operation


Tensor: TypeAlias = torch.Tensor

#: op name (with the dialect's prefix) → (op, operands) → results, run by torch.
REFERENCES: dict[str, Callable[[ir.Operation, list[Tensor]], Any]] = {}

#: op name → a check beyond what the field types say; returns what is wrong, or None.
VERIFIERS: dict[str, Callable[[ir.Operation], str | None]] = {}


def reference(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the op's meaning in torch: `f(op, operands) -> tensor or tuple of tensors`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES[f"cuesta.{name}"] = function
        return function

    return enter


def verifier(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a check of the op: `f(op) -> str | None`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        VERIFIERS[f"cuesta.{name}"] = function
        return function

    return enter


def ints(attribute: ir.Attribute) -> list[int]:
    """The integers of an array attribute. Raises Undecided if one is symbolic; `numbers` accepts symbolic ones."""
    found = [item.value for item in attribute]
    if any(isinstance(value, str) for value in found):
        raise Undecided(f"{attribute} depends on the call")
    return found


def numbers(attribute: ir.Attribute) -> list[Number]:
    """The sizes, strides or positions of an array attribute, in which symbolic ones are text."""
    return [number_of(item) for item in attribute]


def number_of(attribute: ir.Attribute) -> Number:
    """The inverse of `int_attr`."""
    return parse(attribute.value) if isinstance(attribute, ir.StringAttr) else attribute.value


def int_array(values: Iterable[Number]) -> ir.ArrayAttr:
    """`[1, 2]`: each number is an i64, or text such as "64*s0" if it is symbolic."""
    return ir.ArrayAttr.get([int_attr(n) for n in values])


def int_attr(value: Number) -> ir.Attribute:
    """An i64, or text if the number is symbolic."""
    known = number(value)
    if isinstance(known, Size):
        return ir.StringAttr.get(str(known))
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(known))


def float_attr(number: float) -> ir.FloatAttr:
    return ir.FloatAttr.get(ir.F64Type.get(), float(number))
