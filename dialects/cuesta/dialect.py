"""The cuesta dialect: functional tensor ops with ATen's names and meaning.

Ops print in MLIR's generic form, `"cuesta.softmax"(%0) {dim = 1} : …`. Every op carries a
`reference`, a torch function on real tensors, so that a module can be run as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from cuesta._mlir import ext, ir


class Cuesta(ext.Dialect, name="cuesta"):
    """Tensors in, tensors out; no op mutates."""


#: The base of every op class.
Operation: Any = Cuesta.Operation


Tensor: TypeAlias = torch.Tensor
Reference = Callable[..., Any]

#: op name (with the dialect's prefix) → (op, operands) → results, run by torch.
REFERENCES: dict[str, Callable[[ir.Operation, list[Tensor]], Any]] = {}

#: op name → a check beyond what the field types say; returns what is wrong, or None.
VERIFIERS: dict[str, Callable[[ir.Operation], str | None]] = {}


def reference(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what the op means in torch: `f(op, operands) -> tensor or tuple of tensors`."""

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
    """The integers of an array attribute."""
    return [item.value for item in attribute]


def int_array(numbers: Any) -> ir.ArrayAttr:
    """`[1, 2]`, each an i64."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, int(n)) for n in numbers])


def int_attr(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(number))


def float_attr(number: float) -> ir.FloatAttr:
    return ir.FloatAttr.get(ir.F64Type.get(), float(number))
