"""Multiplies the channels of single pixels in a kernel of ours, which computes what follows, on CUDA.

    %1 = cuesta.convolution(%x, %w)             %1 = permute(%x) : tensor<64x112x112x16xbf16>
      : tensor<64x16x112x112xbf16>,         →   %2 = cuesta.mm(%1, permute(reshape(%w))) {product = "64x32x16/4/2"}
        tensor<96x16x1x1xbf16>                  %3 = permute(%2) : tensor<64x96x112x112xf32>
    %2 = norm, relu6 of %1                      %4 = norm, relu6 of %3

In channels_last the images are a matrix with one row per pixel. With few channels such a convolution moves bytes and
does little else. A library's convolution writes its result, and a second kernel reads it and writes it again, which
takes two thirds of the time. Of what may follow, cuDNN itself computes a sum and relu, which it has taken by now
(fuse-cudnn-convolution).
"""

from __future__ import annotations

import math
from collections.abc import Collection

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.contraction import Convolution, MatMul, convolution_arguments
from cuesta.dialects.cuesta.shape import Permute
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import Tile
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import byte_size, opmath, shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.layout import CHANNELS_LAST, FROM_CHANNELS_LAST
from cuesta.passes.analysis.match import only_has_ones, only_user, without_ones
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import TARGETS, is_for_tensor_cores
from cuesta.passes.libraries.convolutions.convolution_gradients import replace_chosen
from cuesta.passes.libraries.products.routes import NARROW_FLOATS
from cuesta.passes.libraries.products.tiles import Plan, plan_with_epilogue

_B = GraphBuilder()
#: Rows begin at multiples of so many bytes: each access of a thread is as wide.
ALIGNED = 16
#: The most tensors that what follows may read, such as four rows of a norm and a residual. With 9, two norms and a
#: branch, threads of 128x128 elements took 250 registers; with 14, three norms and two branches, they spilled up to
#: 1,510 bytes.
_MOST_READ = 10


@register_pass("pointwise-convolutions")
class PointwiseConvolutions(Pass):
    """Rewrites convolutions of single pixels as products with a kernel of ours, where what follows joins it."""

    def run(self, module: ir.Module) -> None:
        kind = target_of(module).kind
        if kind in TARGETS:
            replace_chosen(module, lambda op, memory: is_narrow(op, kind) and _is_chosen(op, memory), _product)


def is_narrow(op: ir.Operation, target: str) -> bool:
    """Whether an op is a convolution of images of narrow floats, in one group, for tensor cores, whose sizes are
    numbers, and which pointwise ops follow."""
    if not Convolution.matches(op) or not is_for_tensor_cores(op, target):
        return False
    x, weight, *_ = op.operands
    *_, transposed, _, groups = convolution_arguments(op)
    sizes = [*shape_of(x), *shape_of(weight)]
    is_plain = not transposed and groups == 1 and len(shape_of(x)) == 4 and spelling_of(x) in NARROW_FLOATS
    return is_plain and all(isinstance(n, int) and n > 0 for n in sizes) and _is_followed(op.results[0])


def multiplied(op: ir.Operation, rows: ir.Value, tile: Tile) -> list[ir.Value]:
    """The result of a convolution whose windows are `rows`, [N, windows down, windows across, channels * places], as a
    kernel of ours with this tile."""
    _, weight, *bias = op.operands
    *pixels, elements = shape_of(rows)
    results, kind = shape_of(weight)[0], spelling_of(rows)
    columns = _B.permute(_B.reshape(weight, [results, elements]), [1, 0])
    total = MatMul(rows, columns, tensor([*pixels, results], opmath(kind))).result
    MatMul.product.put(total.owner, str(tile))
    for b in bias:
        total = _B.pointwise("add", total, _B.convert(b, opmath(kind)))
    return [_B.convert(_B.permute(total, FROM_CHANNELS_LAST), kind)]


def _is_followed(value: ir.Value) -> bool:
    """Whether an epilogue pays: pointwise ops alone read `value`, their results are stored, as not only reductions read
    them, and a program has registers for all operands of these ops."""
    made, same, pending = set[ir.Value](), {value}, [value]
    is_stored = False
    while pending:
        x = pending.pop()
        readers = set(users(x))
        joining = {u for u in readers if _computes(u, value)}
        others = readers - joining
        if others and x in same:
            return False
        if x in same:
            same |= {user.results[0] for user in joining if only_has_ones(user)}
        if any(reduction.row_of(user) is None for user in others):
            is_stored = True  # and read from memory by all
            continue
        pending += [user.results[0] for user in joining if user.results[0] not in made]
        made |= {user.results[0] for user in joining}
    return is_stored and len(_read_for(made, value)) <= _MOST_READ


def _read_for(made: Collection[ir.Value], value: ir.Value) -> set[ir.Value]:
    """The tensors but for `value` from which pointwise ops of its shape compute the values `made`. A value that
    another op reads as well is taken to be in memory."""
    found, seen, pending = set[ir.Value](), {value}, list(made)
    while pending:
        x = pending.pop()
        if x in seen or not without_ones(x):
            continue
        seen.add(x)
        op = maker(x)
        is_inside = x in made or len(set(users(x))) == 1
        if op is not None and _computes(op, value) and is_inside:
            pending += op.operands
        else:
            found.add(x)
    return found


def _is_chosen(op: ir.Operation, memory: MemoryOrder) -> bool:
    x, weight, *_ = op.operands
    stride, padding, *_ = convolution_arguments(op)
    results, channels, *window = static_shape(weight)
    if any(size != 1 for size in (*window, *stride)) or any(padding) or memory.order(x) != CHANNELS_LAST:
        return False
    is_aligned = not any(size * byte_size(spelling_of(x)) % ALIGNED for size in (channels, results))
    plan = _plan(op)
    return is_aligned and plan is not None and plan.parts == 1


def _plan(op: ir.Operation) -> Plan | None:
    """The plan for the product of a convolution of single pixels, if a kernel of ours and what follows in it are faster
    than the library."""
    x, weight, *_ = op.operands
    (n, channels, *places), (results, *_) = static_shape(x), static_shape(weight)
    inside = set[ir.Operation]() if _follows_product(x) else _computing(x)
    joining = {*inside, *_following(op.results[0])}
    batch = n if any(_varies_by_image(other, op) for other in joining) else 1
    cost = sum(row.cost if (row := pointwise.row_of(other)) else 1 for other in inside)
    rows = n // batch * math.prod(places)
    return plan_with_epilogue(batch, rows, results, channels, byte_size(spelling_of(x)), cost)


def _computes(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an op computes element by element a tensor of the shape of a value, but for dims of 1, which it may add
    or take away."""
    is_one = op.name in POINTWISE or only_has_ones(op)
    return is_one and without_ones(op.results[0]) == without_ones(value)


def _computing(x: ir.Value) -> set[ir.Operation]:
    """The pointwise ops of the shape of x that compute it for one reader alone, which join the reader's kernel."""
    op = maker(x)
    if op is None or not _computes(op, x) or only_user(x) is None:
        return set()
    return {op}.union(*(_computing(y) for y in op.operands if without_ones(y) == without_ones(x)))


def _follows_product(x: ir.Value) -> bool:
    """Whether x is what follows a product of ours, whose kernel computes it."""
    leaves = {y for op in _computing(x) for y in op.operands if without_ones(y) == without_ones(x)}
    turned = (maker(y, Permute) for y in leaves if only_user(y) is not None)
    makers = (maker(op.operands[0]) for op in turned if op is not None)
    return any(op is not None and MatMul.product.is_on(op) for op in makers)


def _following(value: ir.Value) -> set[ir.Operation]:
    """The pointwise ops of the shape of a value that are computed from it."""
    found: set[ir.Operation] = set()
    pending = [value]
    while pending:
        x = pending.pop()
        ops = {u for u in users(x) if _computes(u, value)} - found
        found |= ops
        pending += [op.results[0] for op in ops]
    return found


def _varies_by_image(op: ir.Operation, product: ir.Operation) -> bool:
    """Whether a pointwise op on images reads numbers of each image, as a gate of its channels, and these are there
    before the product: then a block of its kernel has pixels of one image."""
    shape = shape_of(op.results[0])

    def varies(x: ir.Value) -> bool:
        own, made = shape_of(x), maker(x)
        is_there = made is None or made.is_before_in_block(product)
        return is_there and len(own) == len(shape) and own[0] == shape[0] and math.prod(own[2:]) == 1

    return len(shape) > 2 and shape[0] != 1 and math.prod(shape[2:]) != 1 and any(map(varies, op.operands))


def _product(op: ir.Operation) -> list[ir.Value] | None:
    """None where the kernel of a product before it computes x now, so that the library is faster."""
    plan = _plan(op)
    return None if plan is None else multiplied(op, _B.permute(op.operands[0], CHANNELS_LAST), plan.tile)
