"""Writes what a few instructions of NVIDIA's GPUs do, where Triton and LLVM would write more of them.

    %1 = arith.truncf %0 : f32 to bf16                     %2 = cvt.rn.bf16x2 %0         two numbers at once
    %2 = arith.extf %1                                →

    %3 = arith.addf 1, exp(-%x)                            %4 = rcp.approx(1 + ex2.approx(%x * -log2 e))
    %4 = arith.divf 1, %3                             →

    %1 = arith.extf %0                                     %1 = shl.b32 %0, 16 | and.b32 %0, 0xFFFF0000
    %2 = math.fma %1, %w, %3                          →

    %2 = math.exp(%x * -0.5)                          →    %2 = ex2.approx(%x * (-0.5 log2 e))

    %1 = math.rsqrt %0                                     %2 = rcp.approx(%0)
    %2 = arith.mulf %1, %1                            →

    %1 = tt.precise_divf %0, 3                             %1 = arith.mulf %0, 1/3
    %2 = arith.truncf (%1 + %3) to bf16               →    %2 = arith.truncf (%1 + %3) to bf16

A value that eager would write to memory is rounded to its type between two ops of a kernel. Of a block's numbers LLVM
rounds one at a time, by an instruction of the unit that computes logarithms, at a quarter of the rate or less.

linalg_to_tt writes `arith.divf` of f32 only among narrow floats, and `tt.precise_divf` elsewhere. exp and the quotient
take care of denormals, in eight instructions that make no difference among narrow floats. On an H200 the sums of a
gradient of batch norm and silu took 147 µs for 77 million numbers without this pass, 138 µs with rounding in pairs, and
120 µs with both.

The same holds of other powers of e that are rounded to 16 bits after sums and products alone, and of a reciprocal
root's square, as erf has it on all targets: seven of the 41 instructions of an element of gelu's gradient.

What is only multiplied and added to sums, as an element of windows that overlap, is widened by one instruction each. Of
the upper half of a word LLVM first makes a word, as it may have other uses for numbers of 16 bits. Where few sums read
what is loaded, as of 3x3 windows, memory bounds the kernel: with these instructions ptxas has fewer loads in flight (39
µs for 31 where windows are two columns apart).

A quotient that is rounded correctly takes a dozen instructions and a branch. Where it is rounded to 16 bits after sums
and products alone, the last of its 24 bits shows only if a sum cancels all others, and a constant's reciprocal takes
one instruction. What repeats along the block, as the mean of a channel does for its pixels, has one for all. Where all
24 bits show, as in the gradient of a norm of f32, its quotients are rounded correctly in six instructions and without a
branch. As divisions, each of which calls a function, those of a thread run one after the other: 197 µs for 78 MB on an
H200.
"""

from __future__ import annotations

import math
import struct

from cuesta._mlir import arith, ir
from cuesta._mlir import math as functions
from cuesta.dialects import maker, ops_named, tt
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.dialects.tt.instructions import LOGISTIC, POWER, RECIPROCAL, ROUND, per_float, widened
from cuesta.dialects.tt.ops import PreciseDivF
from cuesta.dialects.tt.repeated import number_of, reciprocal_of, unrepeated
from cuesta.dialects.upstream_fields import splat_of
from cuesta.passes.infra.registry import Pass, register_pass

#: The least elements of a block: two for each thread of a warp.
_LEAST = 64
#: The least sums that read what is widened.
_LEAST_SUMS = 7
#: What NVIDIA's GPUs compute in bf16, two numbers at once.
_IN_PAIRS = {op.OPERATION_NAME for op in (arith.AddFOp, arith.SubFOp, arith.MulFOp)}
_ROUNDING = arith.TruncFOp.OPERATION_NAME
#: Ops whose results are among their operands.
_CHOOSING = {
    op.OPERATION_NAME
    for op in (
        *(arith.SelectOp, arith.MaximumFOp, arith.MinimumFOp, arith.MaxNumFOp, arith.MinNumFOp),
        tt.Broadcast,
    )
}
#: Ops that make nothing large of a small difference, unlike a comparison or a rounding to integers.
_SMOOTH = _IN_PAIRS | _CHOOSING
#: Ops whose result is not negative where none of their operands is.
_NOT_NEGATIVE = {
    op.OPERATION_NAME for op in (arith.AddFOp, arith.MulFOp, arith.MinimumFOp, arith.MinNumFOp, functions.FmaOp)
}
#: Ops that take numbers as they are.
_ENDING = {op.OPERATION_NAME for op in (arith.TruncFOp, arith.CmpFOp, tt.Store)}


@register_pass("use-instructions")
class UseInstructions(Pass):
    """Rounds and widens bf16 in pairs; takes fast instructions for logistic functions and quotients to be rounded."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        with module.context, ir.Location.unknown():
            kernels = [nested.operation for nested in kernel_modules(module)]
            ops = [op for kernel in kernels for op in ops_named(kernel, _REPLACED)]
            # The last rounding first: what one before it rounds may not need another.
            roundings = [op for op in ops if op.name == _ROUNDING]
            for op in [*(op for op in ops if op.name != _ROUNDING), *reversed(roundings)]:
                _REPLACED[op.name](op)


def _round(op: ir.Operation) -> None:
    """Replaces a conversion of a block to bf16, all of whose readers convert it back, or store it. What is only stored
    LLVM converts in pairs by itself, and what is one sum or product of numbers of bf16 it computes in pairs."""
    (wide,), (narrow,) = op.operands, op.results
    kinds = [str(tt.element_of(x)) for x in (wide, narrow)]
    if kinds != ["f32", "bf16"] or math.prod(tt.shape_of(narrow)) < _LEAST:
        return
    if (made := maker(wide)) is not None and _is_in_pairs(made):
        return
    users = [use.owner.operation for use in narrow.uses]
    readers = [op for op in users if op.name == arith.ExtFOp.OPERATION_NAME and op.results[0].type == wide.type]
    stores = [op for op in users if op.name == tt.Store.OPERATION_NAME]
    if len(readers) + len(stores) == len(users) and any(_is_computed_with(reader.results[0]) for reader in readers):
        rounded = wide
        if not _is_round(wide):
            with ir.InsertionPoint(op), op.location:
                rounded = per_float(wide, which=ROUND)
        for reader in readers:
            reader.results[0].replace_all_uses_with(rounded)
            reader.erase()
        if stores:
            op.operands[0] = rounded
        else:
            op.erase()


def _is_round(x: ir.Value) -> bool:
    """Whether bf16 holds a block's numbers, as LLVM finds out too: they come from bf16, or were chosen from such."""
    pending, seen = [x], set()
    while pending:
        op = maker(y := pending.pop())
        if op is None or not (op.name in _CHOOSING or _is_held(op)):
            return False
        if op.name in _CHOOSING and op not in seen:
            seen.add(op)
            pending += [z for z in op.operands if tt.element_of(z) == tt.element_of(y)]
    return True


def _is_held(op: ir.Operation) -> bool:
    """Whether an op widens bf16, or is a constant that bf16 holds: the last 16 bits of the f32 are 0."""
    if op.name == arith.ExtFOp.OPERATION_NAME:
        return str(tt.element_of(op.operands[0])) == "bf16"
    number = splat_of(op.results[0])
    return number is not None and not int.from_bytes(struct.pack("<f", number)[:2], "little")


def _is_in_pairs(op: ir.Operation) -> bool:
    """Whether an op is a sum or product of numbers of bf16 that is rounded at once."""
    if op.name not in _IN_PAIRS:
        return False
    rounds = all(use.owner.operation.name == arith.TruncFOp.OPERATION_NAME for use in op.results[0].uses)
    return rounds and all(map(_is_round, op.operands))


def _is_computed_with(x: ir.Value) -> bool:
    """Whether a block's numbers are not only compared, chosen from, rounded, and added or multiplied in pairs, all of
    which LLVM does in bf16."""
    pending, seen = [x], set()
    while pending:
        for op in [use.owner.operation for use in pending.pop().uses]:
            if op.name not in _CHOOSING | _ENDING and not _is_in_pairs(op):
                return True
            if op.name in _CHOOSING and op not in seen:
                seen.add(op)
                pending.append(op.results[0])
    return False


def _widen(op: ir.Operation) -> None:
    """Replaces the conversion of a block of bf16 that is loaded, and that only sums of products read, many of them."""
    (narrow,), (wide,) = op.operands, op.results
    if [str(tt.element_of(x)) for x in (narrow, wide)] != ["bf16", "f32"] or math.prod(tt.shape_of(wide)) < _LEAST:
        return
    readers = [use.owner.operation.name for use in wide.uses]
    sums = len(readers) >= _LEAST_SUMS and {*readers} == {functions.FmaOp.OPERATION_NAME}
    if sums and maker(narrow, tt.Load) is not None:
        with ir.InsertionPoint(op), op.location:
            wide.replace_all_uses_with(widened(narrow))
        op.erase()


def _take_logistic(op: ir.Operation) -> None:
    """Replaces a quotient by 1 + exp(-x)."""
    dividend, divisor = op.operands
    if str(tt.element_of(divisor)) != "f32" or (x := _exponent(divisor)) is None or x.type != divisor.type:
        return
    with ir.InsertionPoint(op), op.location:
        factor = per_float(x, which=LOGISTIC)
        quotient = factor if number_of(dividend) == 1 else arith.mulf(dividend, factor)
    op.results[0].replace_all_uses_with(quotient)
    op.erase()


def _take_power(op: ir.Operation) -> None:
    """Replaces a power of e that is rounded to 16 bits by a power of 2."""
    (x,) = op.operands
    if str(tt.element_of(x)) != "f32" or not _is_rounded(op.results[0]):
        return
    scale = math.log2(math.e)
    product = maker(x, arith.MulFOp)
    if product is not None and (number := number_of(product.operands[1])) is not None:
        x, scale = product.operands[0], number * scale
    with ir.InsertionPoint(op), op.location:
        power = arith.mulf(x, tt.full(tt.shape_of(x), tt.element_of(x), scale))
        op.results[0].replace_all_uses_with(per_float(power, which=POWER))
    op.erase()


def _take_square(op: ir.Operation) -> None:
    """Replaces the square of a reciprocal root by the reciprocal, where it is rounded to 16 bits. What may be negative
    has no root, but a reciprocal."""
    root = maker(op.operands[0], functions.RsqrtOp)
    (result,) = op.results
    if root is None or op.operands[0] != op.operands[1] or len(list(root.results[0].uses)) != 2:
        return
    if str(tt.element_of(result)) == "f32" and _is_rounded(result) and not _may_be_negative(root.operands[0]):
        with ir.InsertionPoint(op), op.location:
            result.replace_all_uses_with(per_float(root.operands[0], which=RECIPROCAL))
        op.erase()
        root.erase()


def _may_be_negative(x: ir.Value) -> bool:
    """Whether a number is not known to be 0 or more, as a constant, a square, and sums, products and minima of such
    numbers are."""
    if (number := number_of(x)) is not None:
        return number < 0
    op = maker(x)
    if op is None or op.name not in _NOT_NEGATIVE:
        return True
    is_square = op.name == arith.MulFOp.OPERATION_NAME and op.operands[0] == op.operands[1]
    return not is_square and any(map(_may_be_negative, op.operands))


def _take_reciprocal(op: ir.Operation) -> None:
    """Replaces a quotient by products, if the divisor is repeated, or if it is a constant and the quotient is rounded
    to 16 bits."""
    dividend, divisor = op.operands
    reciprocal = reciprocal_of(divisor)
    few = unrepeated(divisor)
    repeats = few != divisor and number_of(few) is None and str(tt.element_of(few)) == "f32"
    is_rounded = _is_rounded(op.results[0])
    if not repeats and (reciprocal is None or not is_rounded):
        return
    with ir.InsertionPoint(op), op.location:
        if reciprocal is not None:
            factor = tt.full(tt.shape_of(dividend), tt.element_of(dividend), reciprocal)
            quotient = arith.mulf(dividend, factor)
        else:
            quotient = _by_reciprocal(dividend, few, is_exact=not is_rounded)
        op.results[0].replace_all_uses_with(quotient)
    op.erase()


def _by_reciprocal(dividend: ir.Value, divisor: ir.Value, is_exact: bool) -> ir.Value:
    """A block divided by what is repeated to its shape. With `is_exact` it is rounded correctly: the remainder, which
    one fma tells, corrects a product by the reciprocal (P. Markstein, Computation of elementary functions on the
    IBM RISC System/6000, 1990). Zeros of either sign, infinities and NaN stay as they are: their remainder is not less
    than the dividend. Of dividends below 2^-100 the last bit may be wrong."""
    shape, kind = tt.shape_of(dividend), tt.element_of(dividend)
    scaled_divisor, *factors = _reciprocals(divisor)
    scale, factor = (tt.broadcast(x, shape) for x in factors)
    scaled = arith.mulf(dividend, scale)
    quotient = arith.mulf(scaled, factor)
    if not is_exact:
        return quotient
    zero = tt.full(shape, kind, 0)
    remainder = functions.fma(arith.subf(zero, quotient), tt.broadcast(scaled_divisor, shape), scaled)
    is_less = arith.cmpf(arith.CmpFPredicate.OLT, *map(functions.absf, (remainder, scaled)))
    return arith.select(is_less, functions.fma(remainder, factor, quotient), quotient)


def _reciprocals(divisor: ir.Value) -> list[ir.Value]:
    """A divisor times a power of two, and two blocks by which a block is multiplied instead of divided: that power, and
    a number that it leaves finite for divisors that are denormals as well. They are computed where the divisor is:
    outside of a loop if that is."""
    made = maker(divisor)
    at = ir.InsertionPoint.at_block_begin(divisor.owner) if made is None else ir.InsertionPoint.after(made)
    with at:
        shape, kind = tt.shape_of(divisor), tt.element_of(divisor)
        one, least, scale = (tt.full(shape, kind, number) for number in (1, 2.0**-100, 2.0**64))
        is_small = arith.cmpf(arith.CmpFPredicate.OLT, functions.absf(divisor), least)
        scale = arith.select(is_small, scale, one)
        scaled = arith.mulf(divisor, scale)
        return [scaled, scale, tt.precise_divf(one, scaled)]


def _is_rounded(x: ir.Value) -> bool:
    """Whether a block's numbers are rounded to 16 bits, after smooth ops alone, and not used in another way."""
    pending, seen = [x], set()
    while pending:
        for op in [use.owner.operation for use in pending.pop().uses]:
            if op.name == arith.TruncFOp.OPERATION_NAME:
                continue
            if op.name not in _SMOOTH:
                return False
            if op not in seen:
                seen.add(op)
                pending.append(op.results[0])
    return True


def _exponent(x: ir.Value) -> ir.Value | None:
    """What y is if x is 1 + exp(-y)."""
    total = maker(x, arith.AddFOp)
    for one, power in [] if total is None else [total.operands, [*total.operands][::-1]]:
        exp = maker(power, functions.ExpOp)
        negative = None if exp is None else maker(exp.operands[0], arith.SubFOp)
        if negative is not None and number_of(one) == 1 and number_of(negative.operands[0]) == 0:
            return negative.operands[1]
    return None


#: Op → what replaces it, if anything does.
_REPLACED = {
    arith.TruncFOp.OPERATION_NAME: _round,
    arith.DivFOp.OPERATION_NAME: _take_logistic,
    PreciseDivF.OPERATION_NAME: _take_reciprocal,
    arith.ExtFOp.OPERATION_NAME: _widen,
    functions.ExpOp.OPERATION_NAME: _take_power,
    arith.MulFOp.OPERATION_NAME: _take_square,
}
