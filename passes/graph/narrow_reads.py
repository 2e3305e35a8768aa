"""Reads narrow tensors at computed positions, and widens what was read.

    %1 = cuesta.convert(%x) : tensor<8x32xf32>        %1 = cuesta.index(%x, %i) : tensor<8x128xbf16>
    %2 = cuesta.index(%1, %i) : tensor<8x128xf32>  →  %2 = cuesta.convert(%1) : tensor<8x128xf32>

What is read at computed positions has to be in memory. So the wide tensor would be written first, while the conversion
of what was read joins the reader's kernel. An interpolation of bf16 images, which torch computes in f32, reads each
image four or sixteen times this way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.indexing import Gather, Index, Window
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Flip
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_size, is_float, shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import Rule, erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()


@register_pass("narrow-reads")
class NarrowReads(Pass):
    """Moves widening conversions below reads at computed positions."""

    def run(self, module: ir.Module) -> None:
        rules: dict[str, Rule] = {op.OPERATION_NAME: _read for op in (Index, Gather, Flip)}
        rewrite_ops(module, {**rules, Window.OPERATION_NAME: _window})
        erase_dead(module)


def _read(op: ir.Operation) -> Sequence[ir.Value] | None:
    x, *positions = op.operands
    conversion = maker(x, Convert)
    if conversion is None or not _widens(conversion):
        return None
    (source,) = conversion.operands
    (result,) = op.results
    read = repeat_op(op, [source, *positions], types.tensor(shape_of(result), spelling_of(source)))
    return [_B.convert(read.results[0], spelling_of(result))]


def _window(op: ir.Operation) -> Sequence[ir.Value] | None:
    """`_read`, if the narrow type can hold the number that a window reads outside of x."""
    outside = Window.outside.of(op)
    return _read(op) if outside == 0 or math.isinf(outside) else None


def _widens(conversion: ir.Operation) -> bool:
    """Whether a conversion makes wider floats of floats."""
    old, new = spelling_of(conversion.operands[0]), spelling_of(conversion.results[0])
    return is_float(old) and is_float(new) and byte_size(old) < byte_size(new)
