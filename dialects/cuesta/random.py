"""Defines random ops. Their numbers are drawn from torch's generator in program order."""

from typing import Any

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects.cuesta.dialect import Operation, reference, verifier


class Dropout(Operation, name="dropout"):
    """Zeroes each element with probability `p` and scales the others by 1 / (1 - p).

    Results: the output and the mask of the kept elements. Not pure: it advances the generator.
    """

    x: ext.Operand[Any]
    p: ir.FloatAttr
    y: ext.Result[Any]
    mask: ext.Result[Any]


@reference("dropout")
def _dropout(op: ir.Operation, xs: list[torch.Tensor]) -> Any:
    return torch.ops.aten.native_dropout(xs[0], op.attributes["p"].value, True)


@verifier("dropout")
def _verify(op: ir.Operation) -> str | None:
    p = op.attributes["p"].value
    return None if 0 <= p <= 1 else f"p is {p}; a probability lies within [0, 1]"
