"""Decides what a kernel may hold beside a matrix product: pointwise work on its result, cheap work on its operands.

A program computes a block of the product, so every class but the summed one is parallel. A node that lacks the summed
class is an epilogue, computed once after the sum. A node that has the summed class makes an operand: every program
recomputes the part that it needs, so the left operand is recomputed for each block along N.

A product whose left factor is computed in its kernel may have the products there that it is computed from, with
pointwise work between them: attention and its gradients. A program has whole rows of the result, so no element of the
factor is computed twice. Two such products of the same rows, which sum along the same loop, are one kernel if they
compute their factors from a common product: the gradients of attention's keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from cuesta.dialects.product import COMPUTED, Tile, is_in_panels
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Loop, Space

#: Most products of one kernel whose results are its own: each keeps a block of sums in registers.
_MOST = 2
#: Most products that factors are computed from: they keep theirs only until the factor is multiplied.
_MOST_MAKERS = 2
#: An operand is made in the product's kernel if each of its elements is computed at most this many times. Computing an
#: element takes about as long as moving a byte; fusing saves writing and reading two bytes per element.
_REPEATS = 4
#: Or if all elements computed are at most this share of the bytes that the product reads.
_SHARE = 0.125


def _roots(space: Space, node: Node) -> set[Loop]:
    return set(space.classes[node.index])


def product_classes(space: Space, nodes: Sequence[Node]) -> set[Loop]:
    """The classes along which the programs of a kernel with a product are independent."""
    chiefs, _ = _parted([n for n in nodes if n.product is not None])
    own = chiefs if chiefs[0].factor is not None else chiefs[:1]
    return {c for n in own for c, free in zip(space.classes[n.index], n.parallel, strict=True) if free}


def product_refusal(
    space: Space, nodes: Sequence[Node], internal: Collection[int], epilogues: bool = True
) -> str | None:
    """Why `nodes`, which include a product, cannot be one kernel; None if they can. `internal` holds the indices of the
    nodes that no other kernel reads. `epilogues` allows nodes that read the product."""
    products = [n for n in nodes if n.product is not None]
    chiefs, makers = _parted(products)
    if (refused := _refused_products(space, chiefs, makers, internal)) is not None:
        return refused
    if _keeps_from_factor(nodes, internal):
        return "every program of another matrix product would write the op's result"
    multiplied = {result for product in products for result in product.results}
    for node in nodes:
        if node.product is not None:
            continue
        maker = next((product for product in makers if _roles(space, product)[2] in _roots(space, node)), None)
        if maker is not None:
            refused = _refused_factor(space, node, maker, internal)
        elif not epilogues and any(read.value in multiplied for read in node.reads):
            refused = "epilogue_fusion is off"
        else:
            refused = _refused_beside(space, node, _nearest(space, node, chiefs), internal)
        if refused is not None:
            return refused
    return None


def _keeps_from_factor(nodes: Sequence[Node], internal: Collection[int]) -> bool:
    """Whether the nodes make another product's left factor, but that product, which is to join them, is not here yet,
    and other kernels read what one of them adds to the factor: the programs of the product would each write it."""
    makes = any(node.makes_factor for node in nodes) and not any(node.factor for node in nodes)
    return makes and any(node.index not in internal for node in nodes if node.product is None and not node.makes_factor)


def _parted(products: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The products whose results the kernel's programs share out, and those that left factors are computed from. The
    former are all products if no left factor is computed."""
    chiefs = [product for product in products if product.factor is not None]
    return (chiefs, [p for p in products if p.factor is None]) if chiefs else ([*products], [])


def _nearest(space: Space, node: Node, chiefs: Sequence[Node]) -> Node:
    """Of several products the one with whose columns a node has to do, or else any."""
    return next((chief for chief in chiefs if _roles(space, chief)[1] in _roots(space, node)), chiefs[0])


def _refused_products(
    space: Space, chiefs: Sequence[Node], makers: Sequence[Node], internal: Collection[int]
) -> str | None:
    """Why these products, as `_parted` gives them, cannot be in one kernel; None if they can."""
    first, *others = chiefs
    if len(chiefs) > _MOST or len({_computed(space, maker) for maker in makers}) > _MOST_MAKERS:
        return f"one kernel would have more than {_MOST} matrix products, or factors computed from more"
    if any(not _makes_factor(space, maker, first) or maker.index not in internal for maker in makers):
        return "a matrix product whose left factor is computed has no other products in its kernel"
    for other in others:
        if first.factor is None:
            agree = _roots(space, other) == _roots(space, first) and _roles(space, other) == _roles(space, first)
            if not agree or other.tile != first.tile:
                return "two matrix products have different loops or tiles"
        elif not _sum_alike(space, first, other):
            return "two matrix products whose left factors are computed have different rows"
    if others and makers and len({_computed(space, maker) for maker in makers}) == len(makers):
        return "two matrix products whose left factors are computed have no product in common"
    return None


def _sum_alike(space: Space, first: Node, other: Node) -> bool:
    """Whether two products whose left factors are computed have the same rows, and sum along the same loop."""
    (m, n, k), (own_m, own_n, own_k) = _roles(space, first), _roles(space, other)
    assert first.tile is not None and other.tile is not None
    tiles = [replace(Tile.parse(tile), n=0) for tile in (first.tile, other.tile)]
    loops = [_roots(space, first) - {n}, _roots(space, other) - {own_n}]
    alike = (m, k) == (own_m, own_k) and loops[0] == loops[1] and tiles[0] == tiles[1]
    return alike and n != own_n and first.factor == other.factor == COMPUTED


def _computed(space: Space, maker: Node) -> tuple[object, ...]:
    """Equal for products of the same factors."""
    loops = space.classes[maker.index]
    return maker.body_key, *((read.value, *(loops[d] for d in read.dims)) for read in maker.reads)


def _makes_factor(space: Space, product: Node, chief: Node) -> bool:
    """Whether a product has the loops of the left factor of `chief`, and sums along a loop of its own."""
    (m, n, k), (own_m, own_n, own_k) = _roles(space, chief), _roles(space, product)
    classes = _roots(space, chief)
    loops_agree = (own_m, own_n) == (m, k) and _roots(space, product) - {own_k} == classes - {n}
    return loops_agree and own_k not in classes


def _refused_factor(space: Space, node: Node, product: Node, internal: Collection[int]) -> str | None:
    """Why a node that makes a factor of one of the products which a left factor is computed from cannot be in its
    kernel; None if it can. The left factor of such a product is made once, before the loop."""
    own, (m, n, _) = _roots(space, node), _roles(space, product)
    if not all(node.parallel) or not own <= _roots(space, product) or {m, n} <= own or node.index not in internal:
        return "the op's loops are not those of one factor of the inner product"
    if m in own and _is_repeated(space, node, product):
        return "every product of the batch would recompute its operand"
    if n in own and _is_dear(node, own, product, {n: 1}, space):
        return "every block of rows would recompute the inner product's right factor"
    return None


def _refused_beside(space: Space, node: Node, product: Node, internal: Collection[int]) -> str | None:
    """Why a node that makes a factor of a product, or follows it, cannot be in its kernel; None if it can."""
    own, classes, (m, n, k) = _roots(space, node), _roots(space, product), _roles(space, product)
    if not all(node.parallel):
        return "a program computes one block of the matrix product, which is too little for a reduction"
    if not own <= classes or {m, n, k} <= own:
        return "the op's loops are neither an operand's nor the result's of the matrix product"
    written = [classes - {k}] if product.factor is None else [classes - {k}, classes - {k, n}]
    if own not in written and node.index not in internal:
        return "every program of the matrix product would write the op's result"
    if {k, n} <= own and node.gathers:
        return "every program of the matrix product would look up its right factor element by element"
    if node.is_dear and _batch_missing(space, own, product):
        return "every product of the batch would compute anew what takes longer than to read it"
    if k in own and is_in_panels(product.tile):
        return "every tile of the matrix product would recompute its operand"
    if product.factor is None and {m, k} <= own and _is_repeated(space, node, product):
        return "every product of the batch would recompute its operand"
    if k in own and _is_dear(node, own, product, {m: 0, n: 1}, space):
        return "every block of the matrix product would recompute its operand"
    return None


def _roles(space: Space, node: Node) -> tuple[Loop, Loop, Loop]:
    assert node.product is not None
    m, n, k = (space.classes[node.index][d] for d in node.product)
    return m, n, k


def _batch_missing(space: Space, own: set[Loop], product: Node) -> bool:
    """Whether a product has a batch along a loop that `own`, those of another node, lack."""
    sizes = dict(zip(space.classes[product.index], product.hints, strict=True))
    return any(size > 1 and loop not in own for loop, size in sizes.items() if loop not in _roles(space, product))


def _is_repeated(space: Space, node: Node, product: Node) -> bool:
    """Whether a node, which makes a left factor and loads more than its result, lacks loops of a batch of right
    factors, for each of which programs would repeat it. In attention of few queries, whose keys are split into parts,
    each part would wait for what a rotary embedding reads before it can load a key."""
    (_, right, *_), (_, n, _) = product.reads, _roles(space, product)
    batch = {space.classes[product.index][d] for d in right.dims} - {n}
    return bool(batch - _roots(space, node)) and (len(node.reads) > 1 or bool(node.gathers))


def _is_dear(node: Node, own: set[Loop], product: Node, sides: dict[Loop, int], space: Space) -> bool:
    """Whether recomputing an operand for each block across it takes longer than writing and reading it once. `sides`
    are the loops of the factors that the node may make → the factor's number."""
    assert product.tile is not None
    tile, (_, n, k) = Tile.parse(product.tile), _roles(space, product)
    sizes = dict(zip(space.classes[product.index], product.hints, strict=True))
    read = sum(r.bytes for r in product.reads)
    # The rows may be several dims, such as the pixels of images.
    rows = math.prod(size for loop, size in sizes.items() if loop not in own and loop != k)
    blocks = (math.ceil(sizes[n] / tile.n), math.ceil(rows / tile.m))
    return any(
        side in own and blocks[position] > _REPEATS and blocks[position] * node.elements > _SHARE * read
        for side, position in sides.items()
    )
