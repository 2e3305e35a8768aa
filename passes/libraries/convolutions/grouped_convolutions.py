"""Turns grouped convolutions with long windows along one dim into matrix products on a GPU.

    cuesta.convolution(%x, %w) {groups = 16}      %1 = cuesta.window(permute(%x))      : tensor<16x8x627x48xbf16>
      %x : tensor<8x768x499xbf16>              →  %2 = cuesta.unfold(reshape(%1))      : tensor<16x8x500x6144xbf16>
      %w : tensor<768x48x128xbf16>                %3 = cuesta.mm(permute(%w), permute(%2)) {product = "64x256x64/4/4"}

In a padded copy of the images that has each group's channels side by side, a window is contiguous memory, and the
windows of neighbouring places overlap: as a matrix they are a view whose rows begin a few elements apart, which
libraries refuse and a kernel of ours reads like any other. Bias and activation are computed in this kernel.

cuDNN's kernels for tensor cores do not take such windows. It falls back to others that multiply at the rate of f32:
0.6 to 0.8 ms on an H200 for the layer above, of 20 G multiplications (decision 41). Its kernels for short windows, and
for windows along two dims, are left to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import Convolution, MatMul, convolution_arguments
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import byte_size, opmath, shape_of, spelling_of, static_shape, tensor
from cuesta.passes.graph.reshapes.split_readers import split_readers
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import TARGETS
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    completed,
    given_gradients,
    gradient_arguments,
)
from cuesta.passes.libraries.convolutions.grouped_windows import Windows, read_result
from cuesta.passes.libraries.products.tiles import plans

_B = GraphBuilder()


@register_pass("grouped-convolutions")
class GroupedConvolutions(Pass):
    """Rewrites grouped convolutions with long windows as matrix products, on a GPU."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind in TARGETS:
            for function in functions(module):
                ops = [view.operation for view in function.regions[0].blocks[0].operations]
                # All are found before any is replaced: a call that is replaced is erased.
                convolutions, calls = (
                    [op for op in ops if is_one(op)] for is_one in (Convolution.matches, are_gradients)
                )
                for op, rule in [*((op, _convolution) for op in convolutions), *((op, _gradients) for op in calls)]:
                    with ir.InsertionPoint(op), op.location:
                        rule(op)
            erase_dead(module)


def _convolution(op: ir.Operation) -> None:
    """Replaces a convolution, or a slice of it that is all that is read: layers whose windows have an even number of
    places cut off the last result."""
    x, weight, *bias = op.operands
    found = Windows.of(x, weight, convolution_arguments(op))
    if found is None:
        return
    result, start = read_result(op, found.dim)
    count = static_shape(result)[found.dim]
    rows = found.rows(x, start, count)
    total = _convolved(rows, found.by_result(weight), count, found.places, found.stride)
    for b in bias:
        groups, *batch, n, _ = shape_of(total)
        along = _B.reshape(_B.convert(b, spelling_of(total)), [groups, *[1 for _ in batch], n, 1])
        total = _B.pointwise("add", total, along)
    images = found.images(total, spelling_of(result))
    result.replace_all_uses_with(new := images.build())
    split_readers(new, images)


def _gradients(op: ir.Operation) -> None:
    """Replaces the gradients of images and weight, which are products as well.

    The rows of images and of the results' gradient get one length, so that both gradients read the same copies, and all
    samples are one long row where the weight's is summed: between the samples the results' gradient has zeros.
    """
    gradient, x, weight, _, *parameters, _ = gradient_arguments(op)
    found = Windows.of(x, weight, parameters)
    if found is None or found.stride != 1 or found.padding >= found.places:
        return
    stands, made = given_gradients(op), dict[int, ir.Value]()
    size, count = (static_shape(v)[found.dim] for v in (x, gradient))
    before = found.places - 1 - found.padding
    length = max(size + 2 * found.padding, count + 2 * before)
    behind = found.copied(gradient, before, length)
    if 1 in stands:
        made[1] = _weight_gradient(found, found.copied(x, found.padding, length), behind, before, weight)
    if 0 in stands:
        total = _convolved(behind, found.by_channel(weight), size, found.places)
        images = found.images(total, spelling_of(x))
        made[0] = images.build()
    replace(op, completed(op, made))
    if 0 in stands:
        split_readers(made[0], images)


def _weight_gradient(found: Windows, images: ir.Value, gradient: ir.Value, before: int, weight: ir.Value) -> ir.Value:
    """The weight's gradient, from rows of the images and of the results' gradient, which has `before` zeros first."""
    groups, *batch, row = static_shape(images)
    outer, inner, *_ = static_shape(weight)
    n = outer // groups
    places = math.prod(batch) * row // inner
    terms = places - found.places + 1
    windows = _B.unfold(_B.reshape(images, [groups, places * inner]), 1, terms, found.places * inner, inner)
    flat = _B.reshape(gradient, [groups, places * n])
    factor = _B.reshape(_B.slice(flat, 1, before * n, terms * n), [groups, terms, n])
    total = _multiplied(_B.permute(factor, [0, 2, 1]), windows, [gradient, images])
    total = _B.reshape(_B.convert(total, spelling_of(weight)), [outer, found.places, inner])
    return _B.reshape(_B.permute(total, [0, 2, 1]), shape_of(weight))


def _convolved(rows: ir.Value, weight: ir.Value, count: int, places: int, stride: int = 1) -> ir.Value:
    """The weight [groups, results, places * channels] times `count` windows of each of the rows [groups, ...,
    length * channels], as [groups, ..., results, count] in a wider type."""
    groups, *batch, _ = static_shape(rows)
    _, n, k = static_shape(weight)
    last = len(batch) + 1
    windows = _B.unfold(rows, last, count, k, stride * (k // places))
    weights = _B.expand(_B.reshape(weight, [groups, *[1 for _ in batch], n, k]), [groups, *batch, n, k])
    return _multiplied(weights, _B.permute(windows, [*range(last), last + 1, last]), [rows, weight])


def _multiplied(a: ir.Value, b: ir.Value, held: Sequence[ir.Value]) -> ir.Value:
    """The product of two batches of matrices as a kernel; `held` are the tensors whose elements these repeat.

    Tensor cores take 64 rows of the left factor at a time, and are fastest with many columns of the right one: the
    channels of a group are rows, and places are columns.
    """
    *batch, m, k = static_shape(a)
    *_, n = static_shape(b)
    product = MatMul(a, b, tensor([*batch, m, n], opmath(spelling_of(a)))).result
    count, width = math.prod(batch), byte_size(spelling_of(a))
    moved = (sum(math.prod(static_shape(x)) for x in held) + count * m * n) * width
    best, *_ = plans(count, m, n, k, width, moved=moved)
    MatMul.product.put(product.owner, str(best.tile))
    return product
