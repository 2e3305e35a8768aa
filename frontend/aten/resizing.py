"""Imports the custom op that frontend/fx_passes/byte_images.py puts into a graph."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.frontend.aten.pointwise import result_spelling
from cuesta.frontend.rules import imports, sizes_of, strides_of


@imports("resize_bytes", namespace="cuesta")
def resize_bytes(b: GraphBuilder, node: Node, x: Value, size: Any, scale: Any, mode: str, align_corners: bool) -> Value:
    """Becomes a call of an ATen op, so that a program does not need the custom op at run time."""
    source = node.args[0]
    assert isinstance(source, Node)
    result = (sizes_of(node.meta["val"]), result_spelling(node), strides_of(node.meta["val"]))
    arguments = [x, size, align_corners, scale]
    reason = "uint8 image: ATen resizes it in integer arithmetic"
    overload = f"aten.upsample_{mode}2d.vec"
    (resized,) = b.aten(overload, arguments, {}, [result], reason, [strides_of(source.meta["val"])])
    return resized
