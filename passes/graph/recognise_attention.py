"""Rewrites a product, a softmax and a product as one attention op.

    %1 = cuesta.mm(%q, %k^T)
    %2 = cuesta.softmax(%1 * 0.125 + %mask)   →   %3 = cuesta.attention(%q, %k, %v, %mask) {scale = 0.125}
    %3 = cuesta.mm(%2, %v)

A mask is added to the scores, or fills them where a condition says so. Keys and values that are repeated
for groups of heads are taken before the repetition. For a row of nothing but -inf, softmax gives NaN and
ATen's kernel 0: such rows are found in the mask and made NaN again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.cuesta import attention, pointwise
from cuesta.dialects.cuesta.contraction import AddMatMul, MatMul
from cuesta.dialects.cuesta.normalisation import Softmax
from cuesta.dialects.cuesta.pointwise import Convert, Where, broadcast_shape
from cuesta.dialects.cuesta.shape import Constant, Expand, Reshape
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.cuesta.views import SELECTS_ELEMENTS
from cuesta.dialects.fields import float_attr, int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import TARGET, measured_products
from cuesta.dialects.types import row_major, shape_of, spelling_of
from cuesta.passes.analysis.layout import is_dense
from cuesta.passes.analysis.match import multiple, number, only_user, wide
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, remark, replace, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.attention_operands import heads_of, strides_for, transposed_heads_of
from cuesta.policy.product_kinds import ATTENTION, KERNEL
from cuesta.sizes import Number, estimate, hint

_B = GraphBuilder()
_ADD = pointwise.OPS["add"]
#: With fewer columns than a vector has lanes, the kernel's maximum ignores NaN.
_COLUMNS = 16
#: A fill at most this low may become the addition of the lowest number: even where it fills a row, the result is equal.
_LOW = -1e9


@dataclass
class _Scores:
    """What was found between the first product and the softmax."""

    product: ir.Operation
    scale: float = 1.0
    #: innermost first: ("add", mask, factor), or ("where", condition, fill, whether the condition keeps the score)
    masks: list[tuple[str, ir.Value, float, bool]] = field(default_factory=list)


def _scores(x: ir.Value) -> _Scores | None:
    """The chain from a softmax's operand up to a product; None where there is no such chain, or it has other users."""
    shape, factor = shape_of(x), 1.0
    masks: list[tuple[str, ir.Value, float, bool]] = []
    while only_user(x) is not None:
        op = maker(x)
        if op is None:
            return None
        if (scaled := multiple(x)) is not None:
            factor, x = factor * scaled[0], scaled[1]
        elif Convert.matches(op):
            if wide(x) == x:
                return None
            x = op.operands[0]
        elif Reshape.matches(op) and shape_of(op.operands[0])[-2:] == shape[-2:]:
            x = op.operands[0]
        elif MatMul.matches(op):
            return _Scores(op, factor, masks[::-1])
        elif AddMatMul.matches(op):
            beta, alpha = AddMatMul.beta.of(op), AddMatMul.alpha.of(op)
            if beta != 0:
                masks.append(("add", op.operands[0], factor * beta, True))
            return _Scores(op, factor * alpha, masks[::-1])
        elif (found := _mask(op, factor)) is not None and shape_of(x) == shape:
            x, mask = found
            masks.append(mask)
        else:
            return None
    return None


def _mask(op: ir.Operation, factor: float) -> tuple[ir.Value, tuple[str, ir.Value, float, bool]] | None:
    """(scores, mask) where `op` applies a mask to scores, else None; `factor` is applied to the op's result."""
    if _ADD.matches(op):
        x, y = op.operands
        if not _leads_to_product(x):
            x, y = y, x
        return (x, ("add", y, factor, True)) if shape_of(x) == shape_of(op.results[0]) else None
    if not Where.matches(op):
        return None
    condition, x, y = op.operands
    keeps = number(x) is None
    x, fill = (x, number(y)) if keeps else (y, number(x))
    if fill is None or not fill * factor <= _LOW or shape_of(x) != shape_of(op.results[0]):
        return None
    return x, ("where", condition, fill * factor, keeps)


def _leads_to_product(value: ir.Value) -> bool:
    """Whether the first op above `value` that does more than scale, mask or view is a product."""
    while (op := maker(value)) is not None and not (MatMul.matches(op) or AddMatMul.matches(op)):
        if (scaled := multiple(value)) is not None:
            value = scaled[1]
        elif Convert.matches(op) or Reshape.matches(op) or _ADD.matches(op):
            value = op.operands[0]
        elif Where.matches(op):
            value = op.operands[1] if number(op.operands[1]) is None else op.operands[2]
        else:
            return False
    return op is not None


def product_of(probabilities: ir.Value) -> ir.Operation | None:
    """The product that is the only user of a softmax's result and takes it as its first operand, else None."""
    while (op := only_user(probabilities)) is not None:
        if MatMul.matches(op):
            return op if op.operands[0] == probabilities else None
        if len(op.results) != 1:
            return None
        result = op.results[0]
        keeps_rows = Reshape.matches(op) and shape_of(result)[-2:] == shape_of(probabilities)[-2:]
        if not keeps_rows and (not Convert.matches(op) or wide(result) != wide(probabilities)):
            return None
        probabilities = result
    return None


def _finite(value: ir.Value) -> bool:
    """Whether the graph shows that a mask holds only numbers above -inf."""
    op = maker(value)
    if op is None:
        return False
    if Constant.matches(op):
        return Constant.value.of(op) > -math.inf
    if Where.matches(op):
        return all(_finite(x) for x in list(op.operands)[1:])
    if Convert.matches(op):
        # Only a conversion that widens cannot turn the lowest number into -inf.
        widens = types.byte_size(spelling_of(value)) >= types.byte_size(spelling_of(op.operands[0]))
        return widens and _finite(op.operands[0])
    return op.name in SELECTS_ELEMENTS and _finite(op.operands[0])


def _four_dims(mask: ir.Value, shape: Sequence[Number]) -> list[Number]:
    """The sizes of a mask over a softmax of `shape` as ATen's kernel takes them: 2 dims or 4."""
    sizes = list(shape_of(mask))
    if len(sizes) != 3:
        return [1] * (2 - len(sizes)) + sizes
    if len(shape) == 3:
        return [sizes[0], 1, *sizes[1:]]
    if sizes[0] == shape[0] * shape[1]:  # the bias of a product, which has one batch dim
        return [*shape[:2], *sizes[1:]]
    return [1, *sizes]


def _unstretched(mask: ir.Value) -> ir.Value:
    """A mask before it was broadcast: the kernel broadcasts it, and what is computed from it is smaller."""
    while (op := maker(mask, Expand)) is not None:
        mask = op.operands[0]
    return mask


def _built_mask(found: _Scores, shape: Sequence[Number], kind: str) -> tuple[ir.Value | None, bool]:
    """(the mask to add to the scaled product, if any; whether it may have rows of nothing but -inf)."""
    total: ir.Value | None = None
    finite = True
    lowest = torch.finfo(types.torch_dtype(kind)).min
    for how, value, amount, keeps in found.masks:
        value = _unstretched(value)
        value = _B.reshape(value, _four_dims(value, shape))
        if how == "add":
            finite = finite and _finite(value) and amount == 1
            value = value if amount == 1 else _B.with_number("mul", value, amount)
            total = value if total is None else _B.pointwise("add", *_alike(total, value))
            continue
        finite = finite and amount > -math.inf
        total = _B.constant(0, kind) if total is None else total
        fill = _B.constant(amount if amount == -math.inf else lowest, spelling_of(total))
        total = _B.where(value, *((total, fill) if keeps else (fill, total)))
    return total, not finite


def _alike(x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    return (x, y) if spelling_of(x) == spelling_of(y) else (_B.convert(x, "f32"), _B.convert(y, "f32"))


def _fits(found: _Scores, shape: Sequence[Number], kind: str) -> bool:
    """Whether ATen's kernel can take the masks and compute with them what the graph does."""
    fills = [amount for how, _, amount, _ in found.masks if how == "where"]
    if any(amount > -math.inf for amount in fills) and len(found.masks) > 1:
        return False  # the lowest number, plus another mask, may be -inf
    for how, value, _, _ in found.masks:
        if how == "add" and spelling_of(value) not in (kind, types.opmath(kind)):
            return False
        target = (*shape[:-2], 1, *shape[-2:]) if len(shape) == 3 else tuple(shape)
        if broadcast_shape(tuple(_four_dims(value, shape)), target) != target:
            return False
    return True


def _attention(softmax: ir.Operation, least: int, in_kernel: bool) -> bool:
    """Rewrites the attention around a softmax; False where there is none. `in_kernel`: a kernel of ours computes it."""
    (x,), shape = softmax.operands, shape_of(softmax.operands[0])
    second = product_of(softmax.results[0])
    if second is None or not 2 <= len(shape) <= 4 or Softmax.dim.of(softmax) != len(shape) - 1:
        return False
    found = _scores(x)
    if found is None or hint(shape[-1]) < _COLUMNS:
        return False
    q, k = list(found.product.operands)[-2:]
    v = second.operands[1]
    kind, depth = spelling_of(q), shape_of(q)[-1]
    # Scores beyond f16's range are infinite in eager, but not in the kernel, which keeps them in f32.
    if kind not in ("f32", "f64", "bf16") or shape_of(v)[-1] != depth:
        return False
    # Weights of f32 that are rounded to multiply narrow values need no rounding where the values are widened.
    if spelling_of(v) != kind and not (kind == "f32" and spelling_of(v) in ("bf16", "f16")):
        return False
    if not _fits(found, shape, kind):
        return False
    batch, heads = {2: (1, 1), 3: (shape[0], 1), 4: shape[:2]}[len(shape)]
    columns = (batch, heads, shape[-1], depth)
    with ir.InsertionPoint(second), named("attention", second):
        q = heads_of(q, (batch, heads, shape[-2], depth), grouped=False)
        new_k, new_v = transposed_heads_of(k, columns), heads_of(v, columns)
        if shape_of(new_k) != shape_of(new_v):
            new_k, new_v = transposed_heads_of(k, columns, grouped=False), heads_of(v, columns, grouped=False)
        new_v = _B.convert(new_v, kind)
        mask, empty_rows = _built_mask(found, shape, kind)
        # For our own kernel no mask counts: the kernel passes over what the mask hides.
        if kind != "bf16" and _saved_bytes(q, new_k, found, None if in_kernel else mask) < least:
            return True
        factor, q = _unscaled(q)
        scale = found.scale * factor
        output = _build(q, new_k, new_v, mask, scale, empty_rows and not Softmax.safe.of(softmax))
        result = _B.reshape(_B.convert(output, spelling_of(v)), shape_of(second.results[0]))
    replace(second, [result])
    return True


def _unscaled(q: ir.Value) -> tuple[float, ir.Value]:
    """(factor, x) where q is `factor` times x, or a reshape of that."""
    if (scaled := multiple(q)) is not None:
        return scaled
    op = maker(q, Reshape)
    if op is not None and (scaled := multiple(op.operands[0])) is not None:
        return scaled[0], _B.reshape(scaled[1], shape_of(q))
    return 1.0, q


def _saved_bytes(q: ir.Value, k: ir.Value, found: _Scores, mask: ir.Value | None) -> int:
    """About how many bytes one attention op saves: the intermediates that it does not write, less the mask that has to
    be written for it. `mask` is None where no mask counts."""
    (batch, heads, rows, depth), (_, kv_heads, columns, _) = (map(hint, shape_of(x)) for x in (q, k))
    count = batch * heads * rows * columns
    if (batch > 1 and heads > 1) or kv_heads < heads:
        # A product takes one batch dim: operands whose batch and heads do not merge, or whose heads repeat, are copied.
        count += batch * heads * (rows + 2 * columns) * depth
    if mask is not None and any(how == "where" for how, *_ in found.masks):
        count -= estimate(shape_of(mask))
    return count * types.byte_size(spelling_of(q))


def _build(q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value | None, scale: float, empty_rows: bool) -> ir.Value:
    """The attention op, with its operands' strides as attributes, and NaN in the rows where softmax gives NaN."""
    (batch, heads, rows, _), kind = shape_of(q), spelling_of(q)
    statistics = types.tensor([batch, heads, rows], types.opmath(kind))
    op = attention.Attention(q, k, v, mask, float_attr(scale), int_attr(0), q.type, statistics).operation
    operands = [list(strides_for(x)) for x in op.operands]
    # The layout that torch.empty_like gives for q.
    like_q = operands[0] if is_dense(shape_of(q), operands[0]) else row_major(shape_of(q))
    OPERAND_STRIDES.put(op, operands)
    RESULT_STRIDES.put(op, [like_q, [heads * rows, 1, heads]])
    output, logsumexp = op.results
    wrong = []
    if empty_rows and mask is not None:
        top = _B.reduce("amax", mask, [len(shape_of(mask)) - 1], keepdim=True)
        wrong.append(_B.with_number("eq", top, -math.inf))
    if kind == "bf16":
        # In bf16, the kernel's exponential of inf - inf is 0, not NaN.
        top = _B.reshape(logsumexp, [batch, heads, rows, 1])
        wrong.append(_B.with_number("eq", top, math.inf))
    for rows_of_nan in wrong:
        output = _B.where(rows_of_nan, _B.constant(math.nan, kind), output)
    return output


def _leave_apart(softmax: ir.Operation) -> None:
    """Remarks on a softmax between two products that is no attention, as its result is used elsewhere as well."""
    (probabilities,) = softmax.results
    products = [u for u in _users_through_views(probabilities) if MatMul.matches(u)]
    if len(users(probabilities)) > 1 and products and _leads_to_product(softmax.operands[0]):
        bytes_kept = types.byte_count(probabilities)
        remark(softmax, products[0], "no attention: the probabilities are used elsewhere too", bytes_kept)


def _users_through_views(value: ir.Value) -> list[ir.Operation]:
    found = []
    for user in users(value):
        passes_on = user.name in SELECTS_ELEMENTS or Convert.matches(user)
        found += _users_through_views(user.results[0]) if passes_on else [user]
    return found


@register_pass("recognise-attention")
@dataclass(frozen=True)
class RecogniseAttention(Pass):
    """Rewrites a product, a softmax and a product as one attention op."""

    #: The fewest bytes that must be saved in f32 and f64; bf16 always gains. Measured against two products and a
    #: fused softmax, 1 to 32 x 12 heads of 64 in f32: 0.6 to 1.0 of their time from this number on, up to 1.6 below.
    least: int = 1 << 24

    def run(self, module: ir.Module) -> None:
        if TARGET.is_on(module.operation):
            return  # not the CPU: this pass relies on how ATen's CPU kernel behaves
        tried, in_kernel = False, measured_products(module).get(ATTENTION) == KERNEL
        for function in functions(module):
            for op in list(function.regions[0].blocks[0].operations):
                if not Softmax.matches(op.operation):
                    continue
                if _attention(op.operation, self.least, in_kernel):
                    tried = True
                else:
                    _leave_apart(op.operation)
        if tried:
            erase_dead(module)
