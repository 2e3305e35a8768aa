"""Rounds the few products that a kernel adds to something by an instruction of their own, so that its sums of products
take one instruction for each term.

    %1 = arith.mulf %sum, 1/2048                        %1 = mul.rn %sum, 1/2048
    %2 = arith.addf %1, eps                             %2 = arith.addf %1, eps
    %3 = rsqrt(%2) …                              →     %3 = rsqrt(%2) …
    %4 = arith.mulf %x, %weight                         %4 = arith.mulf %x, %weight
    %5 = "tt.reduce"(%4) addf                           %5 = "tt.reduce"(%4) addf       one instruction an element

A product that is added to something is rounded first, as between two ops of eager. One that a reduction adds up need
not be. LLVM fuses multiplications with additions in all of a kernel or nowhere (`rounding_options`). So the mean beside
a norm's epsilon cost a kernel that multiplies the norm by a weight two instructions for each element of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cuesta._mlir import arith, ir
from cuesta.dialects import ops_named, tt
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.dialects.tt.instructions import PRODUCT, per_float
from cuesta.dialects.tt.ops import Broadcast, ExpandDims, Reduce, Reshape, Splat, Trans
from cuesta.passes.infra.registry import Pass, register_pass

#: Ops whose elements are those of their operand: the same as `rounding_options` looks through in a kernel's text.
_SAME = {op.OPERATION_NAME for op in (Broadcast, ExpandDims, Reshape, Splat, Trans)}
_ADDING = {op.OPERATION_NAME for op in (arith.AddFOp, arith.SubFOp)}
#: How many products must be added up by reductions for each one that is added to something else.
_MANY = 16


@register_pass("round-products")
class RoundProducts(Pass):
    """Rounds few products that are added to something, where many are added up by reductions."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for kernel in nested.body.operations:
                    _round(kernel.operation)


def _round(kernel: ir.Operation) -> None:
    products = ops_named(kernel, [arith.MulFOp.OPERATION_NAME])
    added = [op for op in products if any(reader.name in _ADDING for reader in _readers(op.results[0]))]
    summed = [op for op in products if any(Reduce.matches(reader) for reader in _readers(op.results[0]))]
    if not added or _MANY * sum(map(_count, added)) > sum(map(_count, summed)) or not all(map(_is_block_of_f32, added)):
        return
    for op in added:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(per_float(*op.operands, which=PRODUCT))
        op.erase()


def _readers(x: ir.Value) -> Iterator[ir.Operation]:
    """The ops that compute with the elements of a block, wherever they lie in a block."""
    for use in x.uses:
        reader = use.owner.operation
        if reader.name in _SAME:
            yield from _readers(reader.results[0])
        else:
            yield reader


def _count(op: ir.Operation) -> int:
    return math.prod(tt.shape_of(op.results[0]))


def _is_block_of_f32(op: ir.Operation) -> bool:
    return bool(tt.shape_of(op.results[0])) and str(tt.element_of(op.results[0])) == "f32"
