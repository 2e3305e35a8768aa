"""`freezing`: weights of an inference graph's products are packed when they are first met, and kept so.

    %2 = addmm(%bias, %x, t(%weight))   →   %2 = addmm(%bias, %x, reshape(permute(%panels, [1, 0, 2])))
                                        or  %2 = add(packed_mm(%x, %packed, N), %bias)

%panels is an argument of its own, float [P, K, C] for a weight of P * C columns, which a kernel of ours reads; %packed
is what MKL makes of a weight for itself. Before every call it is seen whether each weight is the tensor that was
packed, in the same memory and version; if not it is packed anew. What is written through `.data`, or by a library that
torch knows nothing of, changes no version: it is not seen.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.compile_report import GraphReport
from cuesta.frontend import machine_trial, packed_products
from cuesta.frontend.calling import Boxed
from cuesta.frontend.fx_nodes import last_placeholder
from cuesta.options import Options
from cuesta.product_kinds import KINDS, LIBRARY, kind_of
from cuesta.targets import CPU

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default)


#: Rows from which on MKL's products are taken, where panels are not worth it; and elements of a weight.
_FEWEST_ROWS, _FEWEST_ELEMENTS = 65, 1 << 16


@dataclass
class _Weight:
    """A weight, an argument of the graph, and what it is packed as."""

    #: which argument it is
    position: int
    #: packs it
    pack: Callable[[Tensor], Tensor]
    #: the tensor that was packed, in which memory and version, and what became of it
    kept: tuple[weakref.ref[Tensor], int, int, Tensor] | None = field(default=None)

    def packed(self, weight: Tensor) -> Tensor:
        """The weight as it is now, packed."""
        if weight.is_inference():  # it counts no versions
            return self.pack(weight.detach())
        address, version, kept = weight.data_ptr(), weight._version, self.kept
        if kept is not None and kept[0]() is weight and kept[1:3] == (address, version):
            return kept[3]
        made = self.pack(weight.detach())
        self.kept = (weakref.ref(weight), address, version, made)
        return made


@dataclass(frozen=True)
class FrozenWeights:
    """The weights of a graph that are kept packed."""

    weights: list[_Weight]
    #: how many of them lie in panels
    panels: int

    def text(self) -> str:
        """For the report."""
        count = {"kept in panels": self.panels, "kept as MKL packs them": len(self.weights) - self.panels}
        return "weights of matrix products: " + ", ".join(f"{n} {how}" for how, n in count.items() if n)

    def bind(self, boxed: Boxed) -> Boxed:
        """The call of the graph, which takes what is packed as its last arguments, without them."""

        def call(args: list[Any]) -> list[Any]:
            args += [weight.packed(args[weight.position]) for weight in self.weights]
            return boxed(args)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def freeze_if_asked(
    gm: torch.fx.GraphModule, kind: str, options: Options, static: Sequence[int], kept_by_torch: bool
) -> tuple[FrozenWeights | None, str | None]:
    """What `freeze` gives where the option asks for it and it can be; and what to report where the option asks."""
    if not options.freezing:
        return None, None
    if kind != "inference":
        return None, "nothing: the graph is for gradients, and weights change"
    if options.target not in (None, CPU):
        return None, f"nothing: for {options.target} weights stay as they are"
    if options.bitwise_eager or options.gemm == "library":
        return None, "nothing: matrix products are the library's by another option"
    if kept_by_torch:
        return None, "nothing: torch keeps this program for other processes, which have weights of their own"
    found = freeze(gm, static, options)
    return found, found.text() if found is not None else "nothing: no product of f32 has a weight that is worth packing"


def freeze(gm: torch.fx.GraphModule, static: Sequence[int], options: Options) -> FrozenWeights | None:
    """Has the matrix products of an inference graph take packed weights: in panels, where kernels of ours compute them,
    or as MKL packs them, where MKL does; None where there are none. `static` are the positions of parameters and
    buffers."""
    # Here: who does not ask for it, and has a cached program, needs no MLIR.
    from cuesta.passes.product_panels import is_worth_packing, packed_columns

    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = {n.args[0] for n in gm.graph.nodes if n.target is _ATEN.copy_.default}
    positions = {placeholders[i]: i for i in static if placeholders[i] not in written}
    library = _library_kinds(gm, options)
    weights: list[_Weight] = []
    made: dict[tuple[Node, bool, int], Node] = {}
    for node in list(gm.graph.nodes):
        found = _weight_of(node, positions)
        if found is None:
            continue
        weight, across, (m, k, n) = found
        in_panels = is_worth_packing(m, n, k)
        key = (weight, across, 0 if in_panels else m)
        if not in_panels and not (kind_of(False, across) in library and _is_for_mkl(node, weight, m)):
            continue
        if key not in made:
            name, position = f"packed_{len(weights) + 1}", positions[weight]
            if in_panels:
                columns = packed_columns(n)
                weights.append(_Weight(position, functools.partial(_panels, across=across, columns=columns)))
                argument = _add_argument(gm.graph, weight, name, (n // columns, k, columns))
                made[key] = _matrix_of(gm.graph, argument)
            else:
                weights.append(_Weight(position, functools.partial(packed_products.pack, across=across, m=m)))
                made[key] = _add_argument(gm.graph, weight, name, (packed_products.packed_size(m, n, k),))
        if in_panels:
            node.args = (*node.args[:-1], made[key])
        else:
            _multiply_packed(gm.graph, node, made[key], n)
    if not weights:
        return None
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return FrozenWeights(weights, sum(not m for _, _, m in made))


def _library_kinds(gm: torch.fx.GraphModule, options: Options) -> frozenset[str]:
    """The kinds of products that MKL computes."""
    if options.gemm == "kernel" or not packed_products.can_pack():
        return frozenset()
    chosen = machine_trial.decide(gm, options, CPU, GraphReport("weights"))
    return frozenset(name for name in KINDS if chosen.get(name, LIBRARY) == LIBRARY)


def _panels(weight: Tensor, across: bool, columns: int) -> Tensor:
    if across:
        return weight.unflatten(0, (-1, columns)).transpose(1, 2).contiguous()
    return weight.unflatten(1, (-1, columns)).transpose(0, 1).contiguous()


def _weight_of(node: Node, positions: dict[Node, int]) -> tuple[Node, bool, tuple[int, int, int]] | None:
    """The weight that a product of f32 multiplies by, whether it is transposed, and rows, inner size and columns of the
    product; None where it is no weight, or sizes are no numbers."""
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
    """Whether a product is one of many rows by a large weight, both row-major, and nothing but a bias."""
    x, w = (factor.meta["val"] for factor in (node.args[-2], weight))  # type: ignore[union-attr]
    is_large = m >= _FEWEST_ROWS and w.numel() >= _FEWEST_ELEMENTS
    return is_large and x.is_contiguous() and w.is_contiguous() and not node.kwargs


def _add_argument(graph: torch.fx.Graph, weight: Node, name: str, sizes: Sequence[int]) -> Node:
    """A new last argument, what a weight is packed as."""
    with graph.inserting_after(last_placeholder(graph)):
        argument = graph.placeholder(name)
        argument.meta["val"] = weight.meta["val"].new_empty(sizes)
    return argument


def _matrix_of(graph: torch.fx.Graph, panels: Node) -> Node:
    """The matrix [K, N] that panels are of."""
    count, k, columns = panels.meta["val"].shape
    with graph.inserting_after(panels):
        rows = graph.call_function(_ATEN.permute.default, (panels, [1, 0, 2]))
        rows.meta["val"] = panels.meta["val"].permute(1, 0, 2)
    with graph.inserting_after(rows):
        matrix = graph.call_function(_ATEN.reshape.default, (rows, [k, count * columns]))
        matrix.meta["val"] = rows.meta["val"].reshape(k, count * columns)
    return matrix


def _multiply_packed(graph: torch.fx.Graph, node: Node, packed: Node, n: int) -> None:
    """A product by what MKL has packed, in the place of one by the weight; a bias is added behind it."""
    *bias, left, _ = node.args
    with graph.inserting_before(node):
        result = graph.call_function(torch.ops.cuesta.packed_mm.default, (left, packed, n))
        result.meta = dict(node.meta)
        if bias:
            result = graph.call_function(_ATEN.add.Tensor, (result, bias[0]))
            result.meta = dict(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
