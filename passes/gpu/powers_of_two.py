"""Computes the weights of softmaxes among narrow products by powers of two, which GPUs have instructions for.

    %2 = math.exp(%x * 0.125 - %peak)     →     %2 = ex2(%x * (0.125 log2 e) + (-log2 e * %peak))

exp(x) is 2^(x log2 e), a product and a power; here the product becomes part of the subtraction before it, one fused
multiplication and addition for each score, and that of the row's number is computed once a row. To find the scale, a
positive factor moves below what chooses between scores and -inf, and below a row's maximum, which both keep it exact.

On NVIDIA's GPUs the power is ex2.approx.ftz.f32: what is below 2^-126 becomes 0, which no weight in bf16 or f16 shows.
Without .ftz three more instructions scale the operand. A program of attention with heads of 64 has eight instructions
for each score before they take longer than its products.

Only kernels that multiply narrow floats: the scores are rounded as products of these, and so are the weights.

    %2 = math.exp(%x - %y), %y = max(%x, …)     →     %2 = ex2((%x - %y) * log2 e)

In any kernel, where such powers are only added up, as in the sum of a row below its maximum so far. The largest of them
is 1, beside which a number below 2^-126 is lost in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cuesta._mlir import arith, ir
from cuesta._mlir import math as functions
from cuesta.dialects import maker, ops_named, tt
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.dialects.tt.instructions import POWER, per_float
from cuesta.dialects.tt.ops import Broadcast, Dot, Reduce
from cuesta.dialects.tt.repeated import number_of, unrepeated
from cuesta.dialects.types import byte_size, spelled
from cuesta.passes.infra.registry import Pass, register_pass

_LOG2_E = math.log2(math.e)
#: The largest number of a row whose product by log2 e is finite for certain, and the factor of rows beyond: a model may
#: hide scores by the lowest float, and a row that sees nothing has equal weights.
_LARGEST, _SMALL = 2.0**126, 2.0**-10
_MAXIMA = {arith.MaxNumFOp.OPERATION_NAME: arith.maxnumf, arith.MaximumFOp.OPERATION_NAME: arith.maximumf}


@register_pass("powers-of-two")
class PowersOfTwo(Pass):
    """Makes exp of differences a power of two, in kernels of narrow products and in running sums."""

    def run(self, module: ir.Module) -> None:
        fast = target_of(module).kind == "cuda"
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for function in [view.operation for view in nested.operation.regions[0].blocks[0].operations]:
                    narrow = any(_is_narrow(op.operands[0]) for op in ops_named(function, [Dot.OPERATION_NAME]))
                    replaced = _REPLACED if narrow else _REPLACED_ANYWHERE if fast else {}
                    # Listed first: what is in the region of a reduction goes with it.
                    for op in ops_named(function, replaced):
                        _replace(op, replaced[op.name], fast)


def _is_narrow(x: ir.Value) -> bool:
    return byte_size(spelled(tt.element_of(x))) <= 2


def _replace(op: ir.Operation, rule: Callable[[ir.Operation, bool], ir.Value | None], fast: bool) -> None:
    with ir.InsertionPoint(op), op.location:
        made = rule(op, fast)
    if made is not None:
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _scaled(x: ir.Value) -> tuple[ir.Value, float] | None:
    """What a block is a positive multiple of, and by how much; None for a block that is no product by a number."""
    op = maker(x, arith.MulFOp)
    if op is None or str(tt.element_of(x)) != "f32":
        return None
    for factor, other in (op.operands, [*op.operands][::-1]):
        number = number_of(factor)
        if number is not None and number > 0:
            return other, number
    return None


def _times(x: ir.Value, number: float) -> ir.Value:
    return arith.mulf(x, tt.full(tt.shape_of(x), tt.element_of(x), number))


def _chosen(op: ir.Operation, _: bool) -> ir.Value | None:
    """(c ? x * n : -inf) as (c ? x : -inf) * n."""
    condition, x, y = op.operands
    for kept, hidden in ((x, y), (y, x)):
        if number_of(hidden) == -math.inf and (found := _scaled(kept)) is not None:
            source, number = found
            sides = (source, hidden) if kept == x else (hidden, source)
            return _times(arith.select(condition, *sides), number)
    return None


def _highest(op: ir.Operation, _: bool) -> ir.Value | None:
    """max(x * n) as max(x) * n."""
    combine, *rest = (view.operation for view in op.regions[0].blocks[0].operations)
    is_maximum = combine.name in _MAXIMA and len(op.operands) == len(rest) == 1
    if not is_maximum or len(tt.shape_of(op.operands[0])) < 2 or (found := _scaled(op.operands[0])) is None:
        return None
    source, number = found
    (highest,) = tt.reduce([source], Reduce.axis.of(op), _MAXIMA[combine.name])
    return _times(highest, number)


def _power(op: ir.Operation, fast: bool) -> ir.Value | None:
    """exp(x * n - y) as a power of two, where y is one number for each row or column."""
    difference = maker(op.operands[0], arith.SubFOp)
    if difference is None or str(tt.element_of(op.operands[0])) != "f32":
        return None
    x, y = difference.operands
    if maker(y, Broadcast) is None:
        return None
    shape, row = tt.shape_of(x), unrepeated(y)
    found = _scaled(x)
    if found is not None and _are_scores(found[0]):
        source, number = found
        factor = tt.full(shape, tt.element_of(x), number * _LOG2_E)
        negative = _times(row, -_LOG2_E)
    else:
        source, factor = x, tt.broadcast(_factors(row, 1), shape)
        negative = arith.mulf(row, _factors(row, -1))
    exponent = functions.fma(source, factor, tt.broadcast(negative, shape))
    return per_float(exponent, which=POWER) if fast else functions.exp2(exponent)


def _term(op: ir.Operation, _: bool) -> ir.Value | None:
    """exp(x - y) of f32 as a power of two, where y is the largest of x and others, and the power is only added to a
    sum, perhaps multiplied before."""
    difference = maker(op.operands[0], arith.SubFOp)
    if difference is None or str(tt.element_of(op.operands[0])) != "f32" or not _is_added(op, or_multiplied=True):
        return None
    x, y = difference.operands
    if not _is_largest(y, x):
        return None
    return per_float(_times(op.operands[0], _LOG2_E), which=POWER)


def _is_largest(y: ir.Value, x: ir.Value) -> bool:
    """Whether y is the maximum of x and other blocks."""
    larger = maker(y, arith.MaximumFOp)
    return larger is not None and any(side == x or _is_largest(side, x) for side in larger.operands)


def _is_added(op: ir.Operation, *, or_multiplied: bool = False) -> bool:
    """Whether a result is only added to something, or else only multiplied before."""
    users = [use.owner.operation for use in op.results[0].uses]
    multiplied = [user for user in users if or_multiplied and user.name == arith.MulFOp.OPERATION_NAME]
    added = [user for user in users if user.name == arith.AddFOp.OPERATION_NAME]
    return len(multiplied) + len(added) == len(users) and all(map(_is_added, multiplied))


def _are_scores(x: ir.Value) -> bool:
    """Whether a block is a product, or chosen between one and -inf: far from the lowest float, unlike what a model adds
    to scores, or puts in their place."""
    op = maker(x)
    if op is None or Dot.matches(op):
        return op is not None
    sides = op.operands[1:] if op.name == arith.SelectOp.OPERATION_NAME else []
    kept = [side for side in sides if number_of(side) != -math.inf]
    return len(kept) == 1 and _are_scores(kept[0])


def _factors(row: ir.Value, sign: int) -> ir.Value:
    """log2 e for each row, and a small factor for one of the largest numbers, where any difference is a large one."""
    kind, shape = tt.element_of(row), tt.shape_of(row)
    is_large = arith.cmpf(arith.CmpFPredicate.OGT, functions.absf(row), tt.full(shape, kind, _LARGEST))
    return arith.select(is_large, tt.full(shape, kind, sign * _SMALL), tt.full(shape, kind, sign * _LOG2_E))


#: Op → what replaces it, if anything does.
_REPLACED: dict[str, Callable[[ir.Operation, bool], ir.Value | None]] = {
    arith.SelectOp.OPERATION_NAME: _chosen,
    Reduce.OPERATION_NAME: _highest,
    functions.ExpOp.OPERATION_NAME: _power,
}
#: The same in kernels that multiply no narrow floats, on NVIDIA's GPUs.
_REPLACED_ANYWHERE: dict[str, Callable[[ir.Operation, bool], ir.Value | None]] = {functions.ExpOp.OPERATION_NAME: _term}
