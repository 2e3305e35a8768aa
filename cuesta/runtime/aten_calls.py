"""A call into ATen as dialects/aten.py writes it, read without MLIR."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import cuesta.own_ops  # noqa: F401  torch.ops.cuesta defines our ops
from cuesta.sizes import parse

Arguments = tuple[list[Any], dict[str, Any]]

#: Kind of an argument → name → what torch has of that kind. The text of a call names nothing else of torch's.
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
    # What else torch.ops has are functions that import modules and load libraries.
    for part, kind in (
        (namespace, torch._ops._OpNamespace),
        (op, torch._ops.OpOverloadPacket),
        (overload, torch._ops.OpOverload),
    ):
        if not part.isidentifier() or part.startswith("__"):
            raise AttributeError(f"{part!r} is no name of an op's")
        found = getattr(found, part)
        if not isinstance(found, kind):
            raise AttributeError(f"torch.ops has {part!r}, which belongs to no op")
    return found


def read_call(text: str) -> Callable[[Sequence[Any]], Arguments]:
    """A function from operands to positional and keyword arguments, for an `args` text."""
    items = json.loads(text)
    keywords: dict[str, Any] = {}
    if items and isinstance(items[-1], dict) and "kwargs" in items[-1]:
        keywords = items.pop()["kwargs"]

    def arguments(operands: Sequence[Any]) -> Arguments:
        return [_decode(i, operands) for i in items], {k: _decode(v, operands) for k, v in keywords.items()}

    return arguments


def takes_sizes(text: str) -> bool:
    """Whether the arguments of a call have integers that depend on the program's call."""
    found: list[str] = []

    def number(spelled: str) -> int:
        found.append(spelled)
        return 0

    if '"size"' in text:
        with_numbers(text, number)
    return bool(found)


def with_numbers(text: str, number: Callable[[str], int]) -> str:
    """An `args` text with `number` of each size in its place."""

    def argument(item: Any) -> Any:
        if isinstance(item, list):
            return [argument(i) for i in item]
        if not isinstance(item, dict):
            return item
        if "kwargs" in item:  # the names in it are those of arguments, which may be called "size"
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
