"""Computes products, convolutions and attention of narrow floats in f32 where a CPU's libraries are slow at these.

    %y = cuesta.mm(%x, %w)                 %y = cuesta.convert(cuesta.mm(cuesta.convert(%x), cuesta.convert(%w)))
      : tensor<256x768xbf16>          →      the product is tensor<256x768xf32>

A processor without AVX-512 has no instructions for narrow floats, and ATen's own loops for them take 4 to 64 times as
long as the library's product of f32 (cuesta/policy/slow_floats.py). Operands were rounded to the narrow type before,
and results are rounded to it as before; only the sums in between are in f32. The conversions become part of the kernels
beside them. A matrix that is read once, by a vector or by few rows, stays narrow, and so do the keys and values of few
queries: kernels of ours, or ATen's loops, widen what they read.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta.attention import Attention, AttentionBackward
from cuesta.dialects.cuesta.contraction import AddMatMul, Convolution, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import spelling_of
from cuesta.errors import PipelineError
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.attention_kernels import are_few_queries
from cuesta.passes.libraries.convolutions.convolution_gradients import are_gradients
from cuesta.passes.libraries.products.routes import NARROW_FLOATS, is_best_left_narrow
from cuesta.passes.libraries.widened import widened
from cuesta.policy.slow_floats import slow_in_convolutions, slow_in_products

_PRODUCTS, _ATTENTION = names_of(MatMul, AddMatMul), names_of(Attention, AttentionBackward)


@register_pass("compute-in-f32")
@dataclass(frozen=True)
class ComputeInF32(Pass):
    """Computes in f32, between conversions, what libraries would compute in slow narrow floats.

    `slow` is bf16, f16 or both with a comma between, or "measured": those that were measured to be slow on a processor
    like this one. Raises PipelineError for others.
    """

    slow: str = "measured"

    def run(self, module: ir.Module) -> None:
        products, convolutions = self._slow_floats()
        if target_of(module).kind != "cpu" or not products | convolutions:
            return
        with module.context:
            for function in functions(module):
                memory = MemoryOrder()
                ops = [view.operation for view in function.regions[0].blocks[0].operations]
                # All are chosen before one is widened: a conversion would hide in which order an operand lies.
                chosen = [(op, _narrow(op, products, convolutions, memory)) for op in ops]
                for op, narrow in chosen:
                    widened(op, narrow)

    def _slow_floats(self) -> tuple[frozenset[str], frozenset[str]]:
        """The floats that are slow in products, and in convolutions."""
        if self.slow == "measured":
            return slow_in_products(), slow_in_convolutions()
        given = frozenset(self.slow.split(","))
        if not given <= {*NARROW_FLOATS}:
            raise PipelineError(
                f"compute-in-f32 takes slow=bf16, slow=f16, slow=bf16,f16 or slow=measured, not {self.slow!r}"
            )
        return given, given


def _narrow(
    op: ir.Operation, products: frozenset[str], convolutions: frozenset[str], memory: MemoryOrder
) -> frozenset[str]:
    """The floats among an op's operands that are to be widened."""
    kinds = frozenset(map(spelling_of, op.operands))
    if op.name == Convolution.OPERATION_NAME or are_gradients(op):
        return kinds & convolutions
    if op.name not in (*_PRODUCTS, *_ATTENTION) or kinds.isdisjoint(products):
        return frozenset()
    stays = is_best_left_narrow(op, memory) if op.name in _PRODUCTS else are_few_queries(op)
    return frozenset() if stays else kinds & products
