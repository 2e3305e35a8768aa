"""Defines `dropout`, the dialect's random op. Their numbers are drawn from torch's generator in program order."""

from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import Float


class Dropout(Operation, name="dropout"):
    """Zeroes each element with probability `p` and scales the others by 1 / (1 - p).

    Results: the output and the mask of the kept elements. Not pure: it advances the generator.
    """

    x: Operand
    p: Float
    y: Result
    mask: Result


@reference(Dropout)
def _dropout(op: ir.Operation, xs: list[torch.Tensor]) -> Any:
    return torch.ops.aten.native_dropout(xs[0], Dropout.p.of(op), True)


@verifier(Dropout)
def _verify(op: ir.Operation) -> str | None:
    p = Dropout.p.of(op)
    return None if 0 <= p <= 1 else f"p is {p}; a probability lies within [0, 1]"
