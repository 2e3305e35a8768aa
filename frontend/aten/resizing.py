"""Imports the resizing of uint8 images, a custom op that frontend/fx_passes/byte_images.py puts into a graph."""

from __future__ import annotations

from typing import Any

from cuesta.dialects.graph_builder import Value
from cuesta.frontend.call import Call
from cuesta.frontend.rules import imports, strides_of


@imports("resize_bytes", namespace="cuesta")
def resize_bytes(b: Call, x: Value, size: Any, scale: Any, mode: str, align_corners: bool) -> Value:
    """Becomes a call of an ATen op, so that a program does not need the custom op at run time."""
    result = (b.sizes, b.spelling, strides_of(b.meta))
    arguments = [x, size, align_corners, scale]
    reason = "uint8 image: ATen resizes it in integer arithmetic"
    overload = f"aten.upsample_{mode}2d.vec"
    (resized,) = b.aten(overload, arguments, {}, [result], reason, [strides_of(b.given(0))])
    return resized
