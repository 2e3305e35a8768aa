"""Defines the attention specimens of f32, forward and backward, that a machine's library and our kernels are timed on.

ATen's attention kernel multiplies by the library that also computes products. Where our kernel is faster than the
library at products (0.45 and 0.88 to 0.92 of the library's time on two EPYCs), it is faster at attention too (0.38 and
0.60 to 0.72 forward, 0.48 and 0.65 to 0.78 backward), so attention is not timed there. Where our kernel is slower at
products, that tells nothing about attention, because its kernel packs no operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from cuesta.driver.autotune.product_trial import linear_layer
from cuesta.driver.autotune.specimen import WORTH, Specimen, argument, is_plain, random_tensor
from cuesta.policy.product_kinds import ATTENTION, ATTENTION_BACKWARD

_ATEN = torch.ops.aten
_FORWARD = _ATEN._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward

#: The functions by which Dynamo's graphs call attention.
CALLED = frozenset({torch.nn.functional.scaled_dot_product_attention})

#: Batch, heads, length and head dim of a transformer's attention, and their strides; then those of the logsumexp.
_SIZES, _STRIDES = (1, 12, 128, 64), (98304, 64, 768, 1)
_SUMS, _SUM_STRIDES = (1, 12, 128), (1536, 1, 12)

#: The specimen whose result may decide, a linear layer's product, and the range of ratios in which it does not.
_TOLD_BY = (linear_layer(), (WORTH, math.inf))


def kinds(gm: torch.fx.GraphModule) -> Iterator[str]:
    """The kinds of f32 attention in a graph. A product, a softmax and a product may be fused into attention later."""
    found = set()
    for node in gm.graph.nodes:
        first = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], torch.fx.Node) else None
        if is_plain(first):
            found.add(node.target)
    softmaxes = {_ATEN._softmax.default, _ATEN._safe_softmax.default}
    if _FORWARD.default in found or (_ATEN.bmm.default in found and softmaxes & found):
        yield ATTENTION
    if _BACKWARD.default in found:
        yield ATTENTION_BACKWARD


def _forward() -> Specimen:
    whole, sums = argument("", _SIZES, _STRIDES), argument("", _SUMS, _SUM_STRIDES)
    x, y = whole.split()[0], sums.split()[0]
    module = f"""
        func.func @graph({_arguments("qkv")}) -> ({whole}, {sums}) {{
          %0:2 = "cuesta.attention"(%q, %k, %v) {{scale = 0.125, causal = 0, operand_strides = {_strides(3)},
              result_strides = [{list(_STRIDES)}, {list(_SUM_STRIDES)}]}} : ({x}, {x}, {x}) -> ({x}, {y})
          return %0#0, %0#1 : {x}, {y}
        }}"""
    return Specimen(ATTENTION, "attention", "forward", module, lambda: _tensors(3), _attend, module, *_TOLD_BY)


def _backward() -> Specimen:
    whole, sums = argument("", _SIZES, _STRIDES), argument("", _SUMS, _SUM_STRIDES)
    x, y = whole.split()[0], sums.split()[0]
    module = f"""
        func.func @graph({_arguments("gqkvo")}, {argument("l", _SUMS, _SUM_STRIDES)}) -> ({whole}, {whole}, {whole}) {{
          %0:3 = "cuesta.attention_backward"(%g, %q, %k, %v, %o, %l) {{scale = 0.125, causal = 0,
              result_strides = {_strides(3)}}} : ({x}, {x}, {x}, {x}, {x}, {y}) -> ({x}, {x}, {x})
          return %0#0, %0#1, %0#2 : {x}, {x}, {x}
        }}"""

    def inputs() -> list[Tensor]:
        q, k, v = _tensors(3)
        output, logsumexp = _attend(q, k, v)
        return [output, q, k, v, output, logsumexp]

    def library(*saved: Tensor) -> object:
        return _BACKWARD(*saved, 0.0, False, scale=0.125)

    return Specimen(ATTENTION_BACKWARD, "attention", "backward", module, inputs, library, module, *_TOLD_BY)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    output, logsumexp = _FORWARD(q, k, v, 0.0, False, scale=0.125)
    return output, logsumexp


def _tensors(count: int) -> list[Tensor]:
    return [random_tensor(_SIZES, _STRIDES) for _ in range(count)]


def _arguments(names: str) -> str:
    return ", ".join(argument(name, _SIZES, _STRIDES) for name in names)


def _strides(count: int) -> str:
    return str([list(_STRIDES)] * count)


#: Name of a kind → its specimen.
ALL = {specimen.name: specimen for specimen in (_forward(), _backward())}
