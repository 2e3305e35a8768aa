"""Defines the overloads that a host program calls for convolutions with weights that oneDNN has packed
(cuesta/driver/freezing).

Their operand `packed` holds two handles: of the weight in oneDNN's opaque layout, and of the bias. The program passes
the tensors of these handles on to oneDNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.dialects.aten import OperandRef

_ALONE, ADDING = "cuesta.packed_convolution.default", "cuesta.packed_convolution_add.default"
#: Like `ADDING`, but writes the sum over the summand. Made by passes/host/add_in_place.py.
ADDING_IN_PLACE = "cuesta.packed_convolution_add_.default"

#: Our overload → oneDNN's.
PACKED_CONVOLUTIONS: dict[str, str] = {
    _ALONE: "mkldnn._convolution_pointwise.default",
    ADDING: "mkldnn._convolution_pointwise.binary",
    ADDING_IN_PLACE: "mkldnn._convolution_pointwise_.binary",
}


@dataclass(frozen=True)
class HeldRef:
    """The tensor whose handle is element `position` of operand `index`."""

    index: int
    position: int


def onednn_arguments(overload: str, arguments: Sequence[Any]) -> list[Any]:
    """Converts an overload's arguments to those of its oneDNN overload in `PACKED_CONVOLUTIONS`."""
    *images, packed, has_bias, _, padding, stride, dilation, groups, activation, _ = arguments
    assert isinstance(packed, OperandRef)
    weight, bias = (HeldRef(packed.index, position) for position in range(2))
    places = [weight, bias if has_bias else None, padding, stride, dilation, groups]
    if overload == _ALONE:
        return [*images, *places, activation, [], ""]
    if overload == ADDING_IN_PLACE:
        images.reverse()
    return [*images, *places, "add", None, None if activation == "none" else activation, [], ""]
