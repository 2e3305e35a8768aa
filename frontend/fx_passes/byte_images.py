"""Keeps resizing of uint8 images one op, which ATen computes in integers. torch's own decomposition, which AOTAutograd
cannot be told to leave out, rounds floats (bilinear) and weights (bicubic), so that its results are off by one.

    interpolate(x, scale_factor=2, mode="bilinear")   →   cuesta::resize_bytes(x, None, [2.0, 2.0], "bilinear", False)
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.torch_private.decompositions import decomposition_table

aten = torch.ops.aten

#: Mode → ATen's op.
RESIZES = {"bilinear": aten.upsample_bilinear2d.vec, "bicubic": aten.upsample_bicubic2d.vec}
_SIGNATURE = inspect.signature(F.interpolate)


def keep_byte_images_whole(gm: GraphModule) -> None:
    """Rewrites Dynamo's graph and the graphs nested in it, in place."""
    for module in gm.modules():
        if isinstance(module, GraphModule):
            found = [n for n in module.graph.nodes if n.op == "call_function" and n.target is F.interpolate]
            for node in found:
                arguments = _arguments(node)
                if arguments is not None:
                    node.target, node.args, node.kwargs = torch.ops.cuesta.resize_bytes.default, arguments, {}
            if found:
                module.recompile()


def _arguments(node: Node) -> tuple[Any, ...] | None:
    """The op's arguments for a call of F.interpolate; None where the op does not support the call."""
    bound = _SIGNATURE.bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    given = bound.arguments
    x = given["input"]
    meta = x.meta.get("example_value") if isinstance(x, Node) else None
    if meta is None or meta.dtype != torch.uint8 or meta.dim() != 4 or given["mode"] not in RESIZES:
        return None
    if given["antialias"]:
        return None
    size, scale = (_pair(given[name]) for name in ("size", "scale_factor"))
    if given["recompute_scale_factor"]:  # from the size that the given scale leads to
        size, scale = list(node.meta["example_value"].shape[2:]), None
        if not all(isinstance(n, int) for n in size):
            return None
    if scale is not None:
        if not isinstance(scale, (list, tuple)) or not all(isinstance(factor, (int, float)) for factor in scale):
            return None
        scale = [float(factor) for factor in scale]
    return x, size, scale, given["mode"], bool(given["align_corners"])


def _pair(value: Any) -> Any:
    """`value` as a pair where it is one number for both sides. Of Dynamo's nodes without tensors, only numbers have an
    `example_value`."""
    example = value.meta.get("example_value") if isinstance(value, Node) else value
    return [value, value] if isinstance(example, (int, float, torch.SymInt, torch.SymFloat)) else value


def _decomposition(mode: str) -> Any:
    """The decomposition of the ATen op of `mode`, for graphs that torch.export captured."""
    op = RESIZES[mode]

    def resize(x: Tensor, size: Any, align_corners: bool, scale: Any) -> Tensor:
        if x.dtype == torch.uint8:
            result: Tensor = torch.ops.cuesta.resize_bytes(x, size, scale, mode, align_corners)
            return result
        decomposed: Tensor = decomposition_table[op](x, size, align_corners, scale)
        return decomposed

    return resize


#: overload → its decomposition
DECOMPOSITIONS = {op: _decomposition(mode) for mode, op in RESIZES.items()}
