"""Names the kinds of f32 matrix products by which a library and our kernels are compared, once per machine.

    across     [M, K] by a column-major right operand, such as a linear layer's weight [N, K]
    along      [M, K] by a row-major right operand [K, N]: the gradient of a layer's input, GPT-2's weights
    turned     a column-major left operand, [K, M] in memory: the gradient of a weight

A library that is slow at a kind on a machine is slow at all sizes of the kind, except for few rows
(`passes/libraries/products/panels`).
"""

from __future__ import annotations

from dataclasses import dataclass

#: The two that may compute a product.
LIBRARY, KERNEL = "library", "kernel"

#: Attention consists of products. It and its gradients are compared separately.
ATTENTION, ATTENTION_BACKWARD = "attention", "attention_backward"


@dataclass(frozen=True)
class Kind:
    """A kind of products, and the one product that is measured for the kind: M, K and N of a transformer's layer."""

    name: str
    m: int
    k: int
    n: int
    #: strides of the operands [m, k] and [k, n]
    left_strides: tuple[int, int]
    right_strides: tuple[int, int]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("across", 256, 768, 768, (768, 1), (1, 768)),
        Kind("along", 256, 768, 768, (768, 1), (768, 1)),
        Kind("turned", 768, 256, 768, (1, 768), (768, 1)),
    )
}


def kind_of(turned: bool, across: bool) -> str:
    """The kind of a product: whether its left operand (`turned`) and its right operand (`across`) are column-major."""
    if turned:
        return "turned"
    return "across" if across else "along"
