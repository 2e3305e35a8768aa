"""Defines a row of the table of pointwise ops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects.types import is_float

#: Floats that functions compute on. Like eager's, they do not compute on float8.
_FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True)
class Pointwise:
    """One regular op.

    `scalar(s, *operands, **params)` builds the meaning for one element with a `Scalar` s.
    `promotion` says how ATen chooses the computing type: "same" (common type), "float" (integers
    become f32), "integer" (common type, of integers or bool), "compare" (common type, bool result)
    or "logical" (operands become bool).
    `params` are float attributes. `cost` is in units of one addition, for the fusion's cost model.
    `doubles` is False if the meaning is exact to f32 only: calls in f64 are left to ATen.
    `repeats` is True if the op has a loop whose trip count depends on the operands: GPU calls are left to ATen.
    """

    name: str
    arity: int
    scalar: Callable[..., ir.Value]
    reference: Callable[..., Any]
    promotion: str = "same"
    params: tuple[str, ...] = ()
    cost: int = 1
    doubles: bool = True
    repeats: bool = False

    def takes(self, spelling: str) -> bool:
        """Whether the op computes on that element type."""
        if self.promotion == "float":
            return spelling in _FLOATS
        return self.promotion != "integer" or not is_float(spelling)


def unary(op: Callable[[ir.Value], ir.Value]) -> Callable[..., ir.Value]:
    """The meaning of a row that is one op of MLIR's math dialect."""
    return lambda s, x: op(x)
