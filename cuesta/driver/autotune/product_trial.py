"""Defines the f32 products, one for each kind, on which a machine's library and our kernels are timed."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

from cuesta.driver.autotune.specimen import Specimen, argument, is_plain, random_tensor
from cuesta.policy.product_kinds import KINDS, Kind, kind_of

_ATEN = torch.ops.aten
#: The functions by which Dynamo's graphs call products.
CALLED = frozenset({torch.nn.functional.linear, torch.addmm, torch.mm, torch.bmm, torch.matmul, operator.matmul})
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default, _ATEN.bmm.default, _ATEN.baddbmm.default)


def kinds(gm: torch.fx.GraphModule) -> list[str]:
    """The kinds of f32 products in a graph."""
    return sorted(set(_kinds(gm)))


def specimen_of(kind: Kind) -> Specimen:
    """The specimen that is measured for all products of a kind.

    Relative to the library's time, kinds differ by up to 1.2 on one machine, and machines by 2.5. So where a linear
    layer's product is far from the threshold `WORTH`, the other kinds are on the same side of it.
    """
    left, right, result = (kind.m, kind.k), (kind.k, kind.n), (kind.m, kind.n)
    a, b, c = (f"tensor<{m}x{n}xf32>" for m, n in (left, right, result))
    module = f"""
        func.func @graph({argument("a", left, kind.left_strides)}, {argument("b", right, kind.right_strides)})
            -> ({argument("", result, (kind.n, 1))}) {{
          %0 = "cuesta.mm"(%a, %b) : ({a}, {b}) -> {c}
          return %0 : {c}
        }}"""

    def inputs() -> list[torch.Tensor]:
        return [random_tensor(left, kind.left_strides), random_tensor(right, kind.right_strides)]

    like = None if kind.name == "across" else linear_layer()
    return Specimen(kind.name, "products", kind.name, str(kind), inputs, torch.mm, module, like)


def linear_layer() -> Specimen:
    """The specimen that is measured first, because its result may decide all others."""
    return specimen_of(KINDS["across"])


def _kinds(gm: torch.fx.GraphModule) -> Iterator[str]:
    """The kind of each f32 product in a graph. A convolution with a window of one element may become a product."""
    for node in gm.graph.nodes:
        values = [x.meta.get("val") for x in node.args if isinstance(x, torch.fx.Node)]
        if node.target in _PRODUCTS and all(map(is_plain, values)):
            left, right = (x for x in values[-2:] if x is not None)
            yield kind_of(_is_turned(left), _is_turned(right))
        elif node.target is _ATEN.convolution.default and _is_of_one_element(values[1]):
            yield "across"
        elif node.target is _ATEN.convolution_backward.default and _is_of_one_element(values[2]):
            yield "along"  # the gradient of the images; the weight's gradient is the library's


def _is_turned(matrix: torch.Tensor) -> bool:
    """Whether a matrix is column-major."""
    row, column = matrix.stride()[-2:]
    return isinstance(row, int) and row == 1 and column != 1


def _is_of_one_element(weight: Any) -> bool:
    return is_plain(weight) and all(isinstance(n, int) and n == 1 for n in weight.shape[2:])
