"""Reads the text form of a call into ATen, which dialects/aten.py writes, without MLIR."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import cuesta.own_ops  # noqa: F401  torch.ops.cuesta defines our ops
from cuesta.sizes import parse
from cuesta.torch_private.ops import OpNamespace, OpOverload, OpOverloadPacket

Arguments = tuple[list[Any], dict[str, Any]]

#: Kind of an argument → name → torch's object of that kind. The text of a call names no other objects of torch's.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    kind: {name: value for name, value in vars(torch).items() if isinstance(value, of)}
    for kind, of in (("dtype", torch.dtype), ("layout", torch.layout), ("memory_format", torch.memory_format))
}


def find_overload(name: str) -> Any:
    """The OpOverload that `namespace.op.overload` names.

    Raises AttributeError where torch has no such op, ValueError for a name that does not have three parts.
    """
    namespace, op, overload = name.split(".")
    found: Any = torch.ops
    # Other attributes of torch.ops are functions that import modules and load libraries: these must not be reached.
    for part, kind in (
        (namespace, OpNamespace),
        (op, OpOverloadPacket),
        (overload, OpOverload),
    ):
        if not part.isidentifier() or part.startswith("__"):
            raise AttributeError(f"{part!r} is no name of an op's")
        found = getattr(found, part)
        if not isinstance(found, kind):
            raise AttributeError(f"torch.ops has {part!r}, which belongs to no op")
    return found


def read_call(text: str) -> Callable[[Sequence[Any]], Arguments]:
    """Parses an `args` text into a function from operands to positional and keyword arguments."""
    items = json.loads(text)
    keywords: dict[str, Any] = {}
    if items and isinstance(items[-1], dict) and "kwargs" in items[-1]:
        keywords = items.pop()["kwargs"]

    def arguments(operands: Sequence[Any]) -> Arguments:
        return [_decode(i, operands) for i in items], {k: _decode(v, operands) for k, v in keywords.items()}

    return arguments


def takes_sizes(text: str) -> bool:
    """Whether the arguments of a call contain symbolic integers."""
    found: list[str] = []

    def number(spelled: str) -> int:
        found.append(spelled)
        return 0

    if '"size"' in text:
        with_numbers(text, number)
    return bool(found)


def with_numbers(text: str, number: Callable[[str], int]) -> str:
    """An `args` text in which `number(size)` replaces each symbolic size."""

    def argument(item: Any) -> Any:
        if isinstance(item, list):
            return [argument(i) for i in item]
        if not isinstance(item, dict):
            return item
        if "kwargs" in item:  # the keys are names of arguments, one of which may be "size"
            return {"kwargs": {name: argument(value) for name, value in item["kwargs"].items()}}
        return number(item["size"]) if "size" in item else item

    return json.dumps(argument(json.loads(text)))


def _decode(item: Any, operands: Sequence[Any]) -> Any:
    if isinstance(item, str):
        return operands[int(item[1:])]
    if isinstance(item, list):
        return [_decode(i, operands) for i in item]
    if not isinstance(item, dict):
        return item
    ((kind, value),) = item.items()
    if kind in ATTRIBUTES:
        return ATTRIBUTES[kind][value]
    if kind == "device":
        return torch.device(value)
    if kind == "str":
        return value
    if kind == "size":
        return parse(value)
    if kind == "complex":
        return complex(*(_decode(part, operands) for part in value))
    return math.nan if kind == "nan" else math.inf * value
