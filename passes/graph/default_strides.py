"""Adds row-major strides to a graph's arguments and results where a module written by hand gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.graph_function import (
    STRIDES,
    argument_attributes,
    result_attributes,
    set_argument_attributes,
    set_result_attributes,
)
from cuesta.errors import CuestaError
from cuesta.sizes import Number


def add_strides(function: func.FuncOp) -> None:
    """Gives arguments and results that lack `cuesta.strides` row-major ones.

    Raises CuestaError for a type other than a tensor or memref of known sizes.
    """
    arguments, results = argument_attributes(function), result_attributes(function)
    set_argument_attributes(function, _with_strides(function, arguments, function.type.inputs))
    set_result_attributes(function, _with_strides(function, results, function.type.results))


def _with_strides(function: func.FuncOp, rows: Sequence[Any], kinds: Sequence[ir.Type]) -> list[Any]:
    """The attributes of arguments or results of the types `kinds`, with strides where they had none."""
    if all(STRIDES.name in attributes for attributes in rows):
        return list(rows)
    complete = []
    for attributes, kind in zip(rows, kinds, strict=True):
        sizes = known_sizes(kind)
        if sizes is None:
            raise CuestaError(f"@{function.name.value} has {kind}: only tensors of known sizes are supported")
        own = {named.name: named.attr for named in attributes}
        complete.append(STRIDES.entry(types.row_major(sizes)) | own)
    return complete


def known_sizes(kind: ir.Type) -> Sequence[Number] | None:
    """The sizes of a tensor or memref; None where the type does not tell them."""
    if not isinstance(kind, ir.RankedTensorType | ir.MemRefType):
        return None
    if (
        not kind.has_static_shape
        and (kind.encoding if isinstance(kind, ir.RankedTensorType) else kind.memory_space) is None
    ):
        return None
    return types.sizes_of(kind) if isinstance(kind, ir.RankedTensorType) else types.memref_shape(kind)[0]
