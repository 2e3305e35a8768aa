"""Defines `aten.call`: a call into ATen by overload, for ops that cuesta does not compile.

    %1 = "aten.call"(%x) {overload = "aten.sort.default", args = "[\"%0\", -1, true]", reason = "…"}

`args` is JSON: the positional arguments, "%i" for operand i, then one object of keyword
arguments if there are any. A value that JSON lacks is an object with one key: {"dtype": "float32"},
{"layout": …}, {"memory_format": …}, {"device": …}, {"str": …}, {"inf": 1 or -1}, {"nan": 1},
{"complex": [real, imaginary]}, and {"size": "64*s0"} for a symbolic integer.
`positions` lists the overload's results that the op has, if others are None.
`operand_strides` are the operands' strides at trace time. If they are dense, the call gets operands with these
strides. With `rows_aligned`, operands with gaps or broadcast dims get rows that are as contiguous and aligned as in
the trace, without which some kernels refuse to run.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS
from cuesta.dialects.fields import OPTIONAL, Ints, Marker, NumberRows, NumberRowsOrAny, Text, Texts
from cuesta.dialects.open_op import OpenOp
from cuesta.runtime.aten_calls import find_overload as find_overload
from cuesta.runtime.aten_calls import read_call
from cuesta.sizes import Number, Size


class AtenCall(OpenOp):
    """What a call into ATen says, in the graph and in the host function."""

    overload: Text
    args: Text
    #: Why cuesta does not compile the call.
    reason: Text
    positions: Annotated[Ints, OPTIONAL]
    result_strides: Annotated[NumberRows, OPTIONAL]
    operand_strides: Annotated[NumberRowsOrAny, OPTIONAL]
    rows_aligned: Annotated[Marker, OPTIONAL]
    #: From linalg on: the spellings of the operands' and results' element types. There i8 may be int8, uint8 or bool.
    dtypes: Annotated[Texts, OPTIONAL]
    #: The device that the call is given, if it is not that of its operands.
    device: Annotated[Text, OPTIONAL]


class Call(AtenCall, name="aten.call"):
    """Calls `overload`. Not pure: random numbers and errors keep their order."""


_NAMED: dict[type, Callable[[Any], dict[str, str]]] = {
    torch.dtype: lambda v: {"dtype": str(v).removeprefix("torch.")},
    torch.layout: lambda v: {"layout": str(v).removeprefix("torch.")},
    torch.memory_format: lambda v: {"memory_format": str(v).removeprefix("torch.")},
    torch.device: lambda v: {"device": str(v)},
    str: lambda v: {"str": v},
}


def encode(value: Any) -> Any:
    """A Python argument of an ATen call as JSON; an `OperandRef` stands for a tensor and becomes "%i"."""
    if isinstance(value, OperandRef):
        return f"%{value.index}"
    for kind, spell in _NAMED.items():
        if isinstance(value, kind):
            return spell(value)
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": 1} if math.isnan(value) else {"inf": 1 if value > 0 else -1}
    if isinstance(value, Size):
        return {"size": str(value)}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, complex):
        return {"complex": [encode(value.real), encode(value.imag)]}
    raise TypeError(f"an argument of type {type(value).__name__} has no spelling in aten.call: {value!r}")


class OperandRef:
    """Stands for operand `index` of the op among the arguments of the call."""

    def __init__(self, index: int) -> None:
        self.index = index


def encode_call(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The `args` attribute of a call."""
    encoded = [encode(a) for a in args]
    return json.dumps(encoded + ([{"kwargs": {k: encode(v) for k, v in kwargs.items()}}] if kwargs else []))


def decode_call(text: str, operands: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, with `operands` in the places of "%i"."""
    return read_call(text)(operands)


def traced_strides(op: ir.Operation) -> Sequence[list[Number] | None]:
    """For each operand of a call, the strides that it was traced with; None if any strides will do."""
    return AtenCall.operand_strides.find(op) or [None] * len(op.operands)


def is_random(name: str) -> bool:
    """Whether the overload draws from torch's generator."""
    return torch.Tag.nondeterministic_seeded in find_overload(name).tags


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> Any:
    args, kwargs = decode_call(AtenCall.args.of(op), operands)
    results = find_overload(AtenCall.overload.of(op))(*args, **kwargs)
    if results is None:  # an op that is only run for the error it may raise
        return []
    return [r for r in results if r is not None] if isinstance(results, (list, tuple)) else results


def _verify(op: ir.Operation) -> str | None:
    name = AtenCall.overload.of(op)
    try:
        find_overload(name)
    except (AttributeError, ValueError):
        return f"torch has no overload {name!r}; write it as namespace.op.overload, such as aten.sort.default"
    try:
        decode_call(AtenCall.args.of(op), list(op.operands))
    except (ValueError, IndexError, KeyError) as problem:
        return f"args are not a valid call of {len(op.operands)} operands: {problem}"
    return None


REFERENCES[Call.OPERATION_NAME] = _run
VERIFIERS[Call.OPERATION_NAME] = _verify
