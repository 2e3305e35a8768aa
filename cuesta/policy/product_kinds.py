"""The kinds of matrix products of f32 that a library and our kernels are compared by, once a machine.

    across     [M, K] by a right factor whose columns lie together, as a linear layer's weight [N, K]
    along      [M, K] by one whose rows do, [K, N]: the gradient of a layer's input, GPT-2's weights
    turned     a left factor whose columns lie together, [K, M] in memory: the gradient of a weight

What a machine's library is slow at it is slow at for all sizes of a kind, but for few rows (`passes/product_panels`).
"""

from __future__ import annotations

from dataclasses import dataclass

#: Who may compute a product.
LIBRARY, KERNEL = "library", "kernel"

#: Attention, which is made of products, and its gradients are compared by themselves.
ATTENTION, ATTENTION_BACKWARD = "attention", "attention_backward"


@dataclass(frozen=True)
class Kind:
    """A kind of products, and the one that is measured for all: M, K and N of a transformer's layer."""

    name: str
    m: int
    k: int
    n: int
    #: of [m, k] and of [k, n]
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
    """The name of a product's kind: whether columns of its left factor lie together, and those of its right one."""
    if turned:
        return "turned"
    return "across" if across else "along"
