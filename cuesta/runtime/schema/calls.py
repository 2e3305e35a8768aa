"""Checks a call into ATen through Python: torch must have its overload, and its arguments must be in the form that
dialects/aten.py writes and fit the overload's schema in names and counts."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeAlias, TypedDict

import torch

from cuesta.runtime.aten_calls import ATTRIBUTES, find_overload
from cuesta.runtime.schema.checks import Check, Wrong, check_of, text, whole
from cuesta.runtime.schema.numbers import check_text
from cuesta.runtime.schema.tensors import Tensor, check_dims
from cuesta.torch_private.ops import schema_of

#: The most operands or results of a call: far more than any call has.
_MANY = 1 << 20

Count: TypeAlias = Annotated[int, whole(f"0 to {_MANY} are valid", most=_MANY)]


class Call(TypedDict):
    """A call into ATen that goes through Python. `operands` is the count of its tensors."""

    overload: str
    args: str
    operands: Count
    results: list[Tensor]
    positions: list[Count] | None


_shape = check_of(Call)


def check_call(value: Any) -> None:
    """Raises Wrong unless `value` is a valid call of an overload that torch has."""
    _shape(value)
    for number, result in enumerate(value["results"]):
        try:
            check_dims(result)
        except Wrong as wrong:
            raise wrong.within(f".results[{number}]") from None
    try:
        overload = find_overload(value["overload"])
    except (AttributeError, ValueError):
        raise Wrong(value["overload"], "torch has no such overload in this process").within(".overload") from None
    try:
        check_arguments(value["args"], value["operands"], schema_of(overload))
    except Wrong as wrong:
        raise wrong.within(".args") from None
    _check_positions(value, len(schema_of(overload).returns))


def _check_positions(call: Call, returned: int) -> None:
    positions = call["positions"]
    if positions is None:
        return
    if len(positions) != len(call["results"]):
        raise Wrong(positions, f"one for each of {len(call['results'])} results is valid").within(".positions")
    # A single return may be a list of any number of tensors.
    if returned > 1 and positions and max(positions) >= returned:
        raise Wrong(max(positions), f"the overload returns {returned} values").within(".positions")


def check_arguments(spelled: str, operands: int, schema: Any) -> None:
    """Raises Wrong unless `spelled` is a list of arguments for a call of `schema` with `operands` tensors."""
    try:
        items = json.loads(spelled, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Wrong(spelled, "a JSON list of arguments is valid") from None
    if type(items) is not list:
        raise Wrong(spelled, "a JSON list of arguments is valid")
    keywords: Any = {}
    if items and type(items[-1]) is dict and "kwargs" in items[-1]:
        ((_, keywords),) = items.pop().items() if len(items[-1]) == 1 else ((None, None),)
    if type(keywords) is not dict:
        raise Wrong(keywords, "keyword arguments are an object")
    names = [a.name for a in schema.arguments]
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    if len(items) > len(positional):
        raise Wrong(items, f"{schema.name} takes {len(positional)} positional arguments")
    for number, item in enumerate(items):
        _within(f"[{number}]", item, operands)
    for name, item in keywords.items():
        if name not in names:
            raise Wrong(name, f"{schema.name} has no argument of that name")
        _within(f".{name}", item, operands)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _within(step: str, item: Any, operands: int) -> None:
    try:
        _check_item(item, operands)
    except Wrong as wrong:
        raise wrong.within(step) from None


def _check_item(item: Any, operands: int) -> None:
    if isinstance(item, str):
        digits = item[1:]
        plain = item[:1] == "%" and digits.isascii() and digits.isdigit() and len(digits) < 8
        if not plain or int(digits) >= operands:
            raise Wrong(item, f"%0 to %{operands - 1} are the operands" if operands else "the call has no operands")
    elif isinstance(item, list):
        for number, each in enumerate(item):
            _within(f"[{number}]", each, operands)
    elif isinstance(item, dict):
        if len(item) != 1:
            raise Wrong(item, "an object of one key is valid")
        ((kind, value),) = item.items()
        if kind not in _KINDS:
            raise Wrong(kind, f"known are {', '.join(_KINDS)}")
        try:
            _KINDS[kind](value)
        except Wrong as wrong:
            raise wrong.within(f".{kind}") from None
    elif item is not None and type(item) is not bool:
        _finite(item)


def _finite(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise Wrong(value, "a finite number is valid")


def _attribute(kind: str) -> Check:
    """Makes a check for names of torch's dtypes, layouts or memory formats."""

    def check(value: Any) -> None:
        if type(value) is not str or value not in ATTRIBUTES[kind]:
            raise Wrong(value, f"torch has no {kind} of that name")

    return check


def device(value: Any) -> None:
    """A device as torch writes it, such as "cpu" or "cuda:0"."""
    text(value)
    try:
        torch.device(value)
    except RuntimeError:
        raise Wrong(value, "torch has no device of that name") from None


def _complex(value: Any) -> None:
    if type(value) is not list or len(value) != 2:
        raise Wrong(value, "a real and an imaginary part are valid")
    for part in value:
        if type(part) is dict:
            if set(part) not in ({"inf"}, {"nan"}):
                raise Wrong(part, "a number, inf or nan is valid")
            _check_item(part, 0)
        else:
            _finite(part)


def _infinite(value: Any) -> None:
    if type(value) is not int or value not in (1, -1):
        raise Wrong(value, "1 and -1 are valid")


def _size(value: Any) -> None:
    check_text(value, "a size is a text here", least=-(1 << 63))


_KINDS: dict[str, Check] = {
    **{kind: _attribute(kind) for kind in ATTRIBUTES},
    "device": device,
    "str": text,
    "size": _size,
    "complex": _complex,
    "inf": _infinite,
    "nan": _infinite,
}
