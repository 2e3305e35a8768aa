"""Computes products, convolutions and attention of narrow floats in f32 where a CPU's libraries are slow at these.

    %y = cuesta.mm(%x, %w)                 %y = cuesta.convert(cuesta.mm(cuesta.convert(%x), cuesta.convert(%w)))
      : tensor<256x768xbf16>          →      the product is tensor<256x768xf32>

A processor without AVX-512 has no instructions for narrow floats, and ATen's own loops for them take 4 to 100 times as
long as the library's product of f32 (cuesta/policy/slow_floats.py). What makes an operand rounds it, and what reads the
result widens it, so results are as exact as before; the conversions become part of the kernels beside them. A matrix
that is read once, by a vector or by few rows, stays narrow, and so do the keys and values of few queries: kernels of
ours, or ATen's loops, widen what they read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta.attention import Attention, AttentionBackward
from cuesta.dialects.cuesta.contraction import AddMatMul, Convolution, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.attention_kernels import are_few_queries
from cuesta.passes.libraries.convolutions.convolution_gradients import are_gradients
from cuesta.passes.libraries.products.routes import is_best_as_it_is
from cuesta.policy.slow_floats import slow_in_convolutions, slow_in_products

_B = GraphBuilder()
_PRODUCTS, _ATTENTION = names_of(MatMul, AddMatMul), names_of(Attention, AttentionBackward)


@register_pass("compute-in-f32")
@dataclass(frozen=True)
class ComputeInF32(Pass):
    """Widens what libraries compute in the floats `slow`, such as "bf16,f16", between conversions. "measured": those
    that were measured to be slow on a processor like this one."""

    slow: str = "measured"

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cpu":
            return
        given = None if self.slow == "measured" else frozenset(self.slow.split(","))
        products = slow_in_products() if given is None else given
        convolutions = slow_in_convolutions() if given is None else given
        if not products | convolutions:
            return
        with module.context:
            for function in functions(module):
                memory = MemoryOrder()
                ops = [view.operation for view in function.regions[0].blocks[0].operations]
                # All are chosen before one is widened: what they read is still in the caller's order.
                chosen = [(op, _narrow(op, products, convolutions, memory)) for op in ops]
                for op, narrow in chosen:
                    if narrow:
                        with ir.InsertionPoint(op), op.location:
                            replace(op, _computed_in_f32(op, narrow))


def _narrow(
    op: ir.Operation, products: Collection[str], convolutions: Collection[str], memory: MemoryOrder
) -> set[str]:
    """The floats among an op's operands that are to be widened."""
    kinds = {spelling_of(x) for x in op.operands}
    if op.name == Convolution.OPERATION_NAME or are_gradients(op):
        return kinds & {*convolutions}
    is_product = op.name in _PRODUCTS and not is_best_as_it_is(op, memory)
    is_attention = op.name in _ATTENTION and not are_few_queries(op)
    return kinds & {*products} if is_product or is_attention else set()


def _computed_in_f32(op: ir.Operation, narrow: Collection[str]) -> Sequence[ir.Value]:
    operands = [_B.convert(x, "f32") if spelling_of(x) in narrow else x for x in op.operands]
    kinds = [tensor(shape_of(x), "f32") if spelling_of(x) in narrow else x.type for x in op.results]
    wide = ir.Operation.create(op.name, kinds, operands, dict(op.attributes.items()))
    return [_B.convert(new, spelling_of(old)) for new, old in zip(wide.results, op.results, strict=True)]
