"""Decides what a kernel may hold beside a matrix product: pointwise work on its result, cheap work on its operands.

A program computes a block of the product, so every class but the summed one is parallel. A node that lacks the summed
class is an epilogue, computed once after the sum. A node that has the summed class makes an operand: every program
recomputes the part that it needs, so the left operand is recomputed for each block along N.

A product whose left factor is computed in its kernel may have the products there that it is computed from, with
pointwise work between them: attention and its gradients. A program has whole rows of the result, so no element of the
factor is computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from cuesta.dialects.product import Tile, is_in_panels
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Loop, Space

#: Most products of one kernel: each keeps a block of sums in registers. The two that a factor is computed from keep
#: theirs only until the factor is multiplied.
_MOST, _MOST_THROUGH = 2, 3
#: An operand is made in the product's kernel if each of its elements is computed at most this many times. Computing an
#: element takes about as long as moving a byte; fusing saves writing and reading two bytes per element.
_REPEATS = 4
#: Or if all elements computed are at most this share of the bytes that the product reads.
_SHARE = 0.125


def _roots(space: Space, node: Node) -> set[Loop]:
    return set(space.classes[node.index])


def product_classes(space: Space, nodes: Sequence[Node]) -> set[Loop]:
    """The classes along which the programs of a kernel with a product are independent."""
    product = _chief([n for n in nodes if n.product is not None])
    return {c for c, free in zip(space.classes[product.index], product.parallel, strict=True) if free}


def product_refusal(
    space: Space, nodes: Sequence[Node], internal: Collection[int], epilogues: bool = True
) -> str | None:
    """Why `nodes`, which include a product, cannot be one kernel; None if they can. `internal` holds the indices of the
    nodes that no other kernel reads. `epilogues` allows nodes that read the product."""
    products = [n for n in nodes if n.product is not None]
    first = _chief(products)
    classes = _roots(space, first)
    m, n, k = _roles(space, first)
    most = _MOST if first.factor is None else _MOST_THROUGH
    if len(products) > most:
        return f"one kernel would have more than {most} matrix products"
    multiplied = {result for product in products for result in product.results}
    for other in products:
        if other is first:
            continue
        if first.factor is not None:
            if not _makes_factor(space, other, first) or other.index not in internal:
                return "a matrix product whose left factor is computed has no other products in its kernel"
        elif _roots(space, other) != classes or _roles(space, other) != (m, n, k) or other.tile != first.tile:
            return "two matrix products have different loops or tiles"
    makers = [n for n in products if n is not first] if first.factor is not None else []
    for node in nodes:
        if node.product is not None:
            continue
        maker = next((product for product in makers if _roles(space, product)[2] in _roots(space, node)), None)
        if maker is not None:
            if (refused := _refused_factor(space, node, maker, internal)) is not None:
                return refused
            continue
        if not epilogues and any(read.value in multiplied for read in node.reads):
            return "epilogue_fusion is off"
        own = _roots(space, node)
        if not all(node.parallel):
            return "a program computes one block of the matrix product, which is too little for a reduction"
        if not own <= classes or {m, n, k} <= own:
            return "the op's loops are neither an operand's nor the result's of the matrix product"
        written = [classes - {k}] if first.factor is None else [classes - {k}, classes - {k, n}]
        if own not in written and node.index not in internal:
            return "every program of the matrix product would write the op's result"
        if {k, n} <= own and node.gathers:
            return "every program of the matrix product would look up its right factor element by element"
        if k in own and is_in_panels(first.tile):
            return "every tile of the matrix product would recompute its operand"
        if first.factor is None and {m, k} <= own and _is_repeated(space, node, first):
            return "every product of the batch would recompute its operand"
        if k in own and _is_dear(node, own, first, {m: (0, n), n: (1, m)}, space):
            return "every block of the matrix product would recompute its operand"
    return None


def _chief(products: Sequence[Node]) -> Node:
    """The product whose result the kernel's programs share out: the one whose left factor is computed, or else any."""
    return next((product for product in products if product.factor is not None), products[0])


def _makes_factor(space: Space, product: Node, chief: Node) -> bool:
    """Whether a product has the loops of the left factor of `chief`, and sums along a loop of its own."""
    (m, n, k), (own_m, own_n, own_k) = _roles(space, chief), _roles(space, product)
    classes = _roots(space, chief)
    loops_agree = (own_m, own_n) == (m, k) and _roots(space, product) - {own_k} == classes - {n}
    return loops_agree and own_k not in classes and product.factor is None


def _refused_factor(space: Space, node: Node, product: Node, internal: Collection[int]) -> str | None:
    """Why a node that makes a factor of one of the products which a left factor is computed from cannot be in its
    kernel; None if it can. The left factor of such a product is made once, before the loop."""
    own, (m, n, _) = _roots(space, node), _roles(space, product)
    if not all(node.parallel) or not own <= _roots(space, product) or {m, n} <= own or node.index not in internal:
        return "the op's loops are not those of one factor of the inner product"
    if m in own and _is_repeated(space, node, product):
        return "every product of the batch would recompute its operand"
    if n in own and _is_dear(node, own, product, {n: (1, m)}, space):
        return "every block of rows would recompute the inner product's right factor"
    return None


def _roles(space: Space, node: Node) -> tuple[Loop, Loop, Loop]:
    assert node.product is not None
    m, n, k = (space.classes[node.index][d] for d in node.product)
    return m, n, k


def _is_repeated(space: Space, node: Node, product: Node) -> bool:
    """Whether a node, which makes a left factor and loads more than its result, lacks loops of a batch of right
    factors, for each of which programs would repeat it. In attention of few queries, whose keys are split into parts,
    each part would wait for what a rotary embedding reads before it can load a key."""
    (_, right, *_), (_, n, _) = product.reads, _roles(space, product)
    batch = {space.classes[product.index][d] for d in right.dims} - {n}
    return bool(batch - _roots(space, node)) and (len(node.reads) > 1 or bool(node.gathers))


def _is_dear(node: Node, own: set[Loop], product: Node, sides: dict[Loop, tuple[int, Loop]], space: Space) -> bool:
    """Whether recomputing an operand for each block across it takes longer than writing and reading it once."""
    assert product.tile is not None
    tile = Tile.parse(product.tile)
    sizes = dict(zip(space.classes[product.index], product.hints, strict=True))
    read = sum(r.bytes for r in product.reads)
    for side, (position, across) in sides.items():
        if side not in own:
            continue
        repeats = math.ceil(sizes[across] / (tile.n if position == 0 else tile.m))
        if repeats > _REPEATS and repeats * node.elements > _SHARE * read:
            return True
    return False
