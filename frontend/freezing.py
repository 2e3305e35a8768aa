"""`freezing`: weights of an inference graph lie in panels, packed when they are first met and kept.

    %2 = addmm(%bias, %x, t(%weight))   →   %2 = addmm(%bias, %x, reshape(permute(%panels, [1, 0, 2])))

%panels is an argument of its own, float [P, K, C] for a weight of P * C columns. Before every call it is seen whether
each weight is the tensor that was packed, in the same memory and version; if not it is packed anew. What is written
through `.data`, or by a library that torch knows nothing of, changes no version: it is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuesta.frontend.calling import Boxed
from cuesta.frontend.fx_nodes import last_placeholder
from cuesta.options import Options
from cuesta.targets import CPU

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default)


@dataclass
class _Weight:
    """A weight, an argument of the graph, and its panels."""

    #: which argument it is
    position: int
    #: whether it is [N, K], as a linear layer's, and not [K, N]
    across: bool
    columns: int
    #: the tensor that was packed, in which memory and version, and its panels
    packed: tuple[weakref.ref[torch.Tensor], int, int, torch.Tensor] | None = field(default=None)

    def panels(self, weight: torch.Tensor) -> torch.Tensor:
        """The panels of the weight as it is now."""
        if weight.is_inference():  # it counts no versions
            return self._pack(weight)
        address, version, packed = weight.data_ptr(), weight._version, self.packed
        if packed is not None and packed[0]() is weight and packed[1:3] == (address, version):
            return packed[3]
        made = self._pack(weight)
        self.packed = (weakref.ref(weight), address, version, made)
        return made

    def _pack(self, weight: torch.Tensor) -> torch.Tensor:
        weight = weight.detach()
        if self.across:
            return weight.unflatten(0, (-1, self.columns)).transpose(1, 2).contiguous()
        return weight.unflatten(1, (-1, self.columns)).transpose(0, 1).contiguous()


@dataclass(frozen=True)
class FrozenWeights:
    """The weights of a graph that lie in panels."""

    weights: list[_Weight]

    def text(self) -> str:
        """For the report."""
        return f"{len(self.weights)} weights of matrix products are kept in panels"

    def bind(self, boxed: Boxed) -> Boxed:
        """The call of the graph, which takes the panels as its last arguments, without them."""

        def call(args: list[Any]) -> list[Any]:
            args += [weight.panels(args[weight.position]) for weight in self.weights]
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
    found = freeze(gm, static)
    return found, found.text() if found is not None else "nothing: no product of f32 has a weight of whole panels"


def freeze(gm: torch.fx.GraphModule, static: Sequence[int]) -> FrozenWeights | None:
    """Has the matrix products of an inference graph take weights in panels, where kernels of ours then compute them;
    None where there are none. `static` are the positions of parameters and buffers."""
    # Here: who does not ask for it, and has a cached program, needs no MLIR.
    from cuesta.passes.product_panels import packed_columns

    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = {n.args[0] for n in gm.graph.nodes if n.target is _ATEN.copy_.default}
    positions = {placeholders[i]: i for i in static if placeholders[i] not in written}
    weights: list[_Weight] = []
    views: dict[tuple[torch.fx.Node, bool], torch.fx.Node] = {}
    for node in list(gm.graph.nodes):
        found = _weight_of(node, positions)
        if found is None:
            continue
        weight, across = found
        if found not in views:
            n = weight.meta["val"].shape[0 if across else 1]
            columns = packed_columns(n)
            weights.append(_Weight(positions[weight], across, columns))
            views[found] = _add_argument(gm.graph, weight, f"panels_{len(weights)}", across, columns)
        node.args = (*node.args[:-1], views[found])
    if not weights:
        return None
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return FrozenWeights(weights)


def _weight_of(node: torch.fx.Node, positions: dict[torch.fx.Node, int]) -> tuple[torch.fx.Node, bool] | None:
    """The weight that a product of f32 multiplies by, and whether it is transposed; None where it is no weight, or
    panels of it are not worth it."""
    from cuesta.passes.product_panels import is_worth_packing

    if node.target not in _PRODUCTS:
        return None
    left, right = node.args[-2:]
    assert isinstance(left, torch.fx.Node) and isinstance(right, torch.fx.Node)
    x, w = left.meta["val"], right.meta["val"]
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" and t.layout == torch.strided for t in (x, w))
    if not plain or not is_worth_packing(x.shape[0], w.shape[1], w.shape[0]):
        return None
    if right in positions:
        return right, False
    turned = right.target is _ATEN.t.default or (
        right.target is _ATEN.permute.default and list(right.args[1]) == [1, 0]  # type: ignore[arg-type]
    )
    source = right.args[0] if turned else None
    return (source, True) if isinstance(source, torch.fx.Node) and source in positions else None


def _add_argument(graph: torch.fx.Graph, weight: torch.fx.Node, name: str, across: bool, columns: int) -> torch.fx.Node:
    """A new last argument, the panels of a weight, as the matrix [K, N] that they are of."""
    value = weight.meta["val"]
    n, k = value.shape if across else value.shape[::-1]
    with graph.inserting_after(last_placeholder(graph)):
        argument = graph.placeholder(name)
        argument.meta["val"] = value.new_empty(n // columns, k, columns)
    with graph.inserting_after(argument):
        rows = graph.call_function(_ATEN.permute.default, (argument, [1, 0, 2]))
        rows.meta["val"] = argument.meta["val"].permute(1, 0, 2)
    with graph.inserting_after(rows):
        matrix = graph.call_function(_ATEN.reshape.default, (rows, [k, n]))
        matrix.meta["val"] = rows.meta["val"].reshape(k, n)
    return matrix
