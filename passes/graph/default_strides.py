"""Adds row-major strides to a graph's arguments and results where a module written by hand gives none."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.fields import int_array
from cuesta.errors import CuestaError
from cuesta.sizes import Number


def add_strides(function: func.FuncOp) -> None:
    """Gives arguments and results that lack `cuesta.strides` row-major ones.

    Raises CuestaError for a type other than a tensor or memref of known sizes.
    """
    kinds = ir.FunctionType(function.attributes["function_type"].value)
    for name, values in (("arg_attrs", kinds.inputs), ("res_attrs", kinds.results)):
        present = list(function.attributes[name]) if name in function.attributes else [ir.DictAttr.get()] * len(values)
        if name in function.attributes and all("cuesta.strides" in attrs for attrs in present):
            continue
        complete = []
        for attrs, kind in zip(present, values, strict=True):
            sizes = known_sizes(kind)
            if sizes is None:
                raise CuestaError(f"@{function.name.value} has {kind}: only tensors of known sizes are supported")
            entries = {"cuesta.strides": int_array(types.row_major(sizes))}
            complete.append(ir.DictAttr.get(entries | {a.name: a.attr for a in attrs}))
        function.attributes[name] = ir.ArrayAttr.get(complete)


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
