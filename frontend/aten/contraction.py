"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import contraction
from cuesta.dialects.cuesta.dialect import float_attr, int_array, int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.frontend.rules import imports

Value: TypeAlias = ir.Value


def _result(node: torch.fx.Node) -> ir.Type:
    return types.tensor(tuple(node.meta["val"].shape), types.SPELLING[node.meta["val"].dtype])


@imports("mm.default", "bmm.default")
def mm(b: GraphBuilder, node: torch.fx.Node, x: Value, y: Value) -> Value:
    return contraction.MatMul(x, y, _result(node)).result


@imports("addmm.default", "baddbmm.default")
def addmm(
    b: GraphBuilder, node: torch.fx.Node, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1
) -> Value:
    return contraction.AddMatMul(bias, x, y, float_attr(beta), float_attr(alpha), _result(node)).result


@imports("convolution.default")
def convolution(
    b: GraphBuilder,
    node: torch.fx.Node,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    lists = [int_array(n) for n in (stride, padding, dilation)]
    return contraction.Convolution(
        x, weight, bias, *lists, int_attr(transposed), int_array(output_padding), int_attr(groups), _result(node)
    ).result
