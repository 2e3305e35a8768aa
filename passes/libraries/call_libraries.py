"""Rewrites matrix products, convolutions and attention as calls of the libraries behind ATen.

    %2 = cuesta.mm(%0, %1)   →   %2 = aten.call(%0, %1) {overload = "aten.mm.default"}

On CPU the libraries are MKL and oneDNN. There a bias that is added to rows is left to the kernel that reads the
product: ATen would write the bias to the result first, and have MKL read it again. `products` makes kernels of
some products instead. A product that is to use tensor cores stays a product, marked with its tile.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, Convolution, MatMul, convolution_arguments
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import row_major, shape_of, spelling_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import Rule, functions, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.attention_kernels import mark_attention
from cuesta.passes.libraries.library_attention import LibraryAttention
from cuesta.passes.libraries.products.as_kernel import as_kernel
from cuesta.passes.libraries.products.by_softmax import multiply_by_softmax
from cuesta.passes.libraries.products.computed_factors import compute_factors
from cuesta.passes.libraries.products.narrow_factors import narrow_factors
from cuesta.passes.libraries.products.packed_weights import keep_panels_apart
from cuesta.passes.libraries.products.routes import mark_routes
from cuesta.passes.libraries.products.turned_weights import turn_widened
from cuesta.passes.libraries.split_attention import split_attention
from cuesta.policy.product_kinds import LIBRARY
from cuesta.targets import Target

_B = GraphBuilder()
_GEMM = "matrix products run in the library"


def _call(
    op: ir.Operation, overload: str, args: Sequence[Any], kwargs: dict[str, Any], reason: str, any_strides: bool = False
) -> list[ir.Value]:
    """The call, with the strides that the op was traced with, or row-major ones without a trace."""
    strides = RESULT_STRIDES.find(op) or [row_major(shape_of(r)) for r in op.results]
    results = [(shape_of(r), spelling_of(r), s) for r, s in zip(op.results, strides, strict=True)]
    operand_strides = None if any_strides else OPERAND_STRIDES.find(op)
    return _B.aten(overload, args, kwargs, results, reason, operand_strides)


def _mm(op: ir.Operation, target: Target) -> list[ir.Value]:
    name = "aten.mm" if len(shape_of(op.operands[0])) == 2 else "aten.bmm"
    if target.kind == "cuda" and (factors := narrow_factors(op)) is not None:
        return _call(op, f"{name}.dtype", [*factors, torch.float32], {}, _GEMM, any_strides=True)
    return _call(op, f"{name}.default", list(op.operands), {}, _GEMM, any_strides=True)


def _addmm(op: ir.Operation) -> list[ir.Value]:
    name = "aten.addmm.default" if len(shape_of(op.operands[1])) == 2 else "aten.baddbmm.default"
    scalars = {"beta": AddMatMul.beta.of(op), "alpha": AddMatMul.alpha.of(op)}
    return _call(op, name, list(op.operands), scalars, _GEMM, any_strides=True)


def _mm_and_bias(op: ir.Operation) -> list[ir.Value]:
    """The product as a call, and an op after it that adds the bias."""
    bias, *factors = op.operands
    (product,) = _call(op, "aten.mm.default", factors, {}, _GEMM, any_strides=True)
    return [_B.pointwise("add", product, bias)]


def _has_bias(op: ir.Operation) -> bool:
    """Whether an addmm adds the same bias to all rows, unscaled and in the type that the product is summed in."""
    (result,) = op.results
    columns = (*(1,) * (len(shape_of(op.operands[0])) - 1), shape_of(result)[-1])
    plain = AddMatMul.beta.of(op) == AddMatMul.alpha.of(op) == 1
    return plain and len(shape_of(result)) == 2 and shape_of(op.operands[0]) == columns and spelling_of(result) == "f32"


def _kernels_read(value: ir.Value) -> bool:
    """Whether all readers of a value are pointwise, so that kernels of ours read it anyway."""
    readers = users(value)
    return bool(readers) and all(
        op.name in POINTWISE or (Reshape.matches(op) and _kernels_read(op.results[0])) for op in readers
    )


def _product(op: ir.Operation, target: Target) -> list[ir.Value] | None:
    """The op as a call or a kernel; None where it stays a product."""
    if MatMul.product.is_on(op):
        return None
    if AnyProduct.route.of(op) != LIBRARY:
        return as_kernel(op, target)
    if MatMul.matches(op):
        return _mm(op, target)
    # On a CPU the kernel that reads the product adds its bias as well.
    joins_bias = not target.gpu and _has_bias(op) and _kernels_read(op.results[0])
    return _mm_and_bias(op) if joins_bias else _addmm(op)


def _convolution(op: ir.Operation) -> list[ir.Value]:
    x, weight, *bias = op.operands
    args = [x, weight, bias[0] if bias else None, *convolution_arguments(op)]
    return _call(op, "aten.convolution.default", args, {}, "convolutions run in the library")


def _types_in_kernels(attention: str, target: Target) -> Collection[str]:
    """The types of products around a softmax that become one kernel on a GPU, as the option `attention` says. With
    "auto" they are those that tensor cores multiply, on the targets where they were measured: on an H100 the kernel
    takes 0.06 to 0.9 of the time of two calls and a softmax. The interpreter runs what CUDA runs."""
    if not target.gpu or attention == "library":
        return ()
    if attention == "kernel":
        return ("bf16", "f16", "f32")
    return ("bf16", "f16") if target.kind in ("cuda", "tt") else ()


@register_pass("call-libraries")
@dataclass(frozen=True)
class CallLibraries(Pass):
    """Turns contractions and attention into calls of ATen."""

    #: Who computes matrix products: the option of that name.
    gemm: str = "auto"

    #: Who computes attention on a CPU: the option of that name.
    attention: str = "auto"

    def run(self, module: ir.Module) -> None:
        target = target_of(module)
        product = functools.partial(_product, target=target)
        rules: dict[str, Rule] = {
            MatMul.OPERATION_NAME: product,
            AddMatMul.OPERATION_NAME: product,
            Convolution.OPERATION_NAME: _convolution,
            **LibraryAttention(target).rules(),
        }
        with module.context:
            kinds = _types_in_kernels(self.attention, target)
            split_attention(module, kinds)
            multiply_by_softmax(module, kinds)
            compute_factors(module, kinds)
            turn_widened(module)
            mark_routes(module, self.gemm)
            mark_attention(module, self.attention, target)
        rewrite_ops(module, rules)
        with module.context:
            for function in functions(module):
                ops = [view.operation for view in function.regions[0].blocks[0].operations]
                # All are found before any is changed: a change erases later ops, whose Python views must not be read.
                for product in [op for op in ops if MatMul.packed.is_on(op)]:
                    keep_panels_apart(product)
