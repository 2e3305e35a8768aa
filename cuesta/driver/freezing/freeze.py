"""Implements `freezing` for matrix products: packs the weights of an inference graph when first met, and keeps them.

    %2 = addmm(%bias, %x, t(%weight))   →   %2 = addmm(%bias, %x, reshape(permute(%panels, [1, 0, 2])))
                                        or  %2 = add(packed_mm(%x, %packed, N), %bias)

%panels is a new argument, float [P, K, C] for a weight of P * C columns, which a kernel of ours reads. %packed holds
the weight in MKL's own packed format. frozen_convolutions.py has convolutions; frozen_arguments.py decides when a
weight is packed anew.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.driver.autotune import machine_trial
from cuesta.driver.freezing import packed_products
from cuesta.driver.freezing.frozen_arguments import FrozenArgument
from cuesta.driver.freezing.frozen_convolutions import freeze_convolutions
from cuesta.frontend.fx_nodes import add_argument
from cuesta.options import Options
from cuesta.policy.product_kinds import KINDS, LIBRARY, kind_of
from cuesta.reports.compile_report import GraphReport
from cuesta.targets import CPU

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default)


#: The least rows of a product, and elements of its weight, for MKL's packed products, where panels do not pay.
_FEWEST_ROWS, _FEWEST_ELEMENTS = 65, 1 << 16


def freeze_if_possible(
    gm: torch.fx.GraphModule, kind: str, options: Options, static: Sequence[int], kept_by_torch: bool
) -> tuple[list[FrozenArgument], str]:
    """Rewrites the products and convolutions of an inference graph to take packed weights. Returns the weights, which
    are new last arguments of the graph, and the text for the report. `static` are the positions of parameters and
    buffers."""
    if kind != "inference":
        return [], "nothing: the weights of a training graph change"
    if options.target not in (None, CPU):
        return [], f"nothing: weights are packed for target cpu, not for {options.target}"
    if options.bitwise_eager:
        return [], "nothing: bitwise_eager is on, and packed weights give other bits than eager's"
    if kept_by_torch:
        return [], "nothing: torch keeps this program for processes with other weights"
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = {n.args[0] for n in gm.graph.nodes if n.target is _ATEN.copy_.default}
    positions = {placeholders[i]: i for i in static if placeholders[i] not in written}
    library = _library_kinds(gm, options)
    convolutions = freeze_convolutions(gm, positions, products=kind_of(False, True) in library)
    products, panels = _freeze_products(gm, positions, options, library)
    if not products and not convolutions:
        return [], "nothing: no f32 weight is worth packing"
    gm.graph.eliminate_dead_code()
    gm.recompile()
    count = {"packed into panels": panels, "packed by MKL": len(products) - panels}
    packed = ", ".join(f"{n} {how}" for how, n in count.items() if n)
    texts = [f"weights of matrix products: {packed}"] if products else []
    if convolutions:
        texts.append(f"weights of convolutions: {len(convolutions)} packed by oneDNN")
    return convolutions + products, "; ".join(texts)


def _freeze_products(
    gm: torch.fx.GraphModule, positions: Mapping[Node, int], options: Options, library: Collection[str]
) -> tuple[list[FrozenArgument], int]:
    """Rewrites products to take packed weights: panels where our kernels compute them, MKL's format where MKL computes
    their kind. Returns the new arguments and how many of them are panels."""
    if options.gemm == "library":
        return [], 0
    # Imported here: a cached program without freezing needs no MLIR.
    from cuesta.passes.libraries.products.panels import is_worth_packing, packed_columns

    weights: list[FrozenArgument] = []
    made: dict[tuple[Node, bool, int], Node] = {}
    for node in list(gm.graph.nodes):
        found = _weight_of(node, positions)
        if found is None:
            continue
        weight, across, (m, k, n) = found
        in_panels = is_worth_packing(m, n, k)
        key = (weight, across, 0 if in_panels else m)
        by_mkl = packed_products.can_pack() and kind_of(False, across) in library
        if not in_panels and not (by_mkl and _is_for_mkl(node, weight, m)):
            continue
        if key not in made:
            name, position = f"packed_{len(weights) + 1}", positions[weight]
            if in_panels:
                columns = packed_columns(n)
                pack = functools.partial(_panels, across=across, columns=columns)
                argument = add_argument(gm.graph, name, weight.meta["val"].new_empty((n // columns, k, columns)))
                made[key] = _matrix_of(gm.graph, argument)
            else:
                pack = functools.partial(packed_products.pack, across=across, m=m)
                size = packed_products.packed_size(m, n, k)
                made[key] = add_argument(gm.graph, name, weight.meta["val"].new_empty((size,)))
            weights.append(FrozenArgument((position,), pack))
        if in_panels:
            node.args = (*node.args[:-1], made[key])
        else:
            _multiply_packed(gm.graph, node, made[key], n)
    return weights, sum(not m for _, _, m in made)


def _library_kinds(gm: torch.fx.GraphModule, options: Options) -> frozenset[str]:
    """The kinds of products that the library computes."""
    if options.gemm == "kernel":
        return frozenset()
    chosen = machine_trial.decide(gm, options, CPU, GraphReport("weights"))
    return frozenset(name for name in KINDS if chosen.get(name, LIBRARY) == LIBRARY)


def _panels(weight: Tensor, across: bool, columns: int) -> Tensor:
    if across:
        return weight.unflatten(0, (-1, columns)).transpose(1, 2).contiguous()
    return weight.unflatten(1, (-1, columns)).transpose(0, 1).contiguous()


def _weight_of(node: Node, positions: Mapping[Node, int]) -> tuple[Node, bool, tuple[int, int, int]] | None:
    """The weight that a product of f32 multiplies by, whether it is transposed, and (rows, inner size, columns).

    None if the right operand is not a weight, or if sizes are symbolic.
    """
    if node.target not in _PRODUCTS:
        return None
    left, right = node.args[-2:]
    assert isinstance(left, Node) and isinstance(right, Node)
    x, w = left.meta["val"], right.meta["val"]
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" and t.layout == torch.strided for t in (x, w))
    sizes = (x.shape[0], w.shape[0], w.shape[1])
    if not plain or not all(isinstance(size, int) for size in sizes):
        return None
    if right in positions:
        return right, False, sizes
    turned = right.target is _ATEN.t.default or (
        right.target is _ATEN.permute.default and list(right.args[1]) == [1, 0]  # type: ignore[arg-type]
    )
    source = right.args[0] if turned else None
    return (source, True, sizes) if isinstance(source, Node) and source in positions else None


def _is_for_mkl(node: Node, weight: Node, m: int) -> bool:
    """Whether MKL's packed product applies: many rows, a large weight, both row-major, and no epilogue but a bias."""
    x, w = (factor.meta["val"] for factor in (node.args[-2], weight))  # type: ignore[union-attr]
    is_large = m >= _FEWEST_ROWS and w.numel() >= _FEWEST_ELEMENTS
    return is_large and x.is_contiguous() and w.is_contiguous() and not node.kwargs


def _matrix_of(graph: torch.fx.Graph, panels: Node) -> Node:
    """Builds the matrix [K, N] from panels [P, K, C] in the graph."""
    count, k, columns = panels.meta["val"].shape
    with graph.inserting_after(panels):
        rows = graph.call_function(_ATEN.permute.default, (panels, [1, 0, 2]))
        rows.meta["val"] = panels.meta["val"].permute(1, 0, 2)
    with graph.inserting_after(rows):
        matrix = graph.call_function(_ATEN.reshape.default, (rows, [k, count * columns]))
        matrix.meta["val"] = rows.meta["val"].reshape(k, count * columns)
    return matrix


def _multiply_packed(graph: torch.fx.Graph, node: Node, packed: Node, n: int) -> None:
    """Replaces a product by one with the weight that MKL has packed; a bias is added after it."""
    *bias, left, _ = node.args
    with graph.inserting_before(node):
        result = graph.call_function(torch.ops.cuesta.packed_mm.default, (left, packed, n))
        result.meta = dict(node.meta)
        if bias:
            result = graph.call_function(_ATEN.add.Tensor, (result, bias[0]))
            result.meta = dict(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
