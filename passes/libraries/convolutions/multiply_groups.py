"""Turns grouped convolutions with long windows along one dim into a batch of matrix products on a CPU.

    cuesta.convolution(%x, %w, %b) {groups = 16}      %1 = unfold(window(permute(%x)))             : [16, 50, 2048]
      %x : tensor<1x256x49xbf16>                   →  %2 = aten.baddbmm(%b, %1, permute(%w))       : [16, 50, 16]
      %w : tensor<256x16x128xbf16>                    permute(%2) : tensor<1x256x50xbf16>

oneDNN has no kernel for such groups. It copies the windows of each group element by element (im2col) and multiplies
them by a kernel for large matrices. Here the copy is of contiguous rows (`grouped_windows`), and the products are
oneDNN's for matrices. Gradients stay with ATen.

On one thread of an EPYC (Zen 5), in µs in bf16, products with the copy, convolution: the layer above 290 and 740,
768 channels in 16 groups over 49 places 1620 and 3560, over 499 places 13900 and 27600; 512 channels in 8 groups by
windows of 31 over 100 places 480 and 980, 680 in channels_last. Windows of 3 places oneDNN computes as fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import row_major, spelling_of, static_shape
from cuesta.passes.infra.graph_rewrite import erase_dead, functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.grouped_windows import Windows, read_result

_B = GraphBuilder()

_REASON = "grouped convolutions run as products in the library"
#: The most elements of copied windows: oneDNN copies one group's at a time.
_MOST = 1 << 25


@register_pass("multiply-groups")
class MultiplyGroups(Pass):
    """Rewrites grouped convolutions with long windows as batches of matrix products, on a CPU."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cpu":
            return
        with module.context:
            for function in functions(module):
                ops = [view.operation for view in function.regions[0].blocks[0].operations]
                for op in [op for op in ops if Convolution.matches(op) and Convolution.onednn.is_on(op)]:
                    with ir.InsertionPoint(op), op.location:
                        _multiply(op)
            erase_dead(module)


def _multiply(op: ir.Operation) -> None:
    """Replaces a convolution, or a slice of it that is all that is read, if it has such windows."""
    x, weight, *bias = op.operands
    found = Windows.of(x, weight, convolution_arguments(op))
    if found is None:
        return
    result, start = read_result(op, found.dim)
    count = static_shape(result)[found.dim]
    if found.places * math.prod(static_shape(x)) // static_shape(x)[found.dim] * count > _MOST:
        return
    rows = found.rows(x, start, count)
    images = found.images(_products(found, rows, found.by_result(weight), count, bias), spelling_of(result))
    result.replace_all_uses_with(images.build())


def _products(found: Windows, rows: ir.Value, weight: ir.Value, count: int, bias: Sequence[ir.Value]) -> ir.Value:
    """`count` windows of each of the rows [groups, ..., length * channels] times the weight [groups, results, places *
    channels], as [groups, ..., results, count]."""
    groups, *batch, _ = static_shape(rows)
    _, n, k = static_shape(weight)
    windows = _B.unfold(rows, len(batch) + 1, count, k, found.stride * (k // found.places))
    m = math.prod(batch) * count
    factors = [_B.reshape(windows, [groups, m, k]), _B.permute(weight, [0, 2, 1])]
    # The strides make windows a copy of ours: ATen would make one itself, in new memory.
    strides = [[m * k, k, 1], [k * n, 1, k]]
    result = ([groups, m, n], spelling_of(rows), row_major([groups, m, n]))
    if bias:
        along = _B.reshape(bias[0], [groups, 1, n])
        scalars = {"beta": 1.0, "alpha": 1.0}
        (product,) = _B.aten(
            "aten.baddbmm.default", [along, *factors], scalars, [result], _REASON, [[n, n, 1], *strides]
        )
    else:
        (product,) = _B.aten("aten.bmm.default", factors, {}, [result], _REASON, strides)
    last = len(batch) + 1
    return _B.permute(_B.reshape(product, [groups, *batch, count, n]), [*range(last), last + 1, last])
