"""Replaces calls of attention by the ops that define them, as a function of tensors spells them out.

`spelled_out_flex_attention` and `spelled_out_masks` have these functions. What they call is traced into the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.graph_key import attribute
from cuesta.torch_private import pytree
from cuesta.torch_private.fake_tensors import FakeTensorMode, detect_fake_mode

aten = torch.ops.aten


def spell_out(gm: GraphModule, calls: Mapping[Node, Callable[..., Any]], table: Mapping[Any, Any]) -> None:
    """Replaces each of these calls in a graph by the ops that its function calls with the call's arguments. The
    function returns what the call returns. `table` decomposes ops."""
    for call, spelling in calls.items():
        _replace(gm, call, spelling, table)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _replace(gm: GraphModule, call: Node, spelling: Callable[..., Any], table: Mapping[Any, Any]) -> None:
    from cuesta.torch_private.flex_attention import traced

    leaves, tree = pytree.tree_flatten(call.args)
    values = [n for n in dict.fromkeys(leaves) if isinstance(n, Node) and not _is_graph(gm, n)]
    fake = [n.meta["val"] for n in values]

    def run(*given: Any) -> Any:
        at = dict(zip(values, given, strict=True))
        graphs = {n: attribute(gm, str(n.target)) for n in leaves if isinstance(n, Node) and n not in at}
        own = [(at | graphs)[x] if isinstance(x, Node) else x for x in leaves]
        return spelling(*pytree.tree_unflatten(own, tree))

    with detect_fake_mode(fake) or FakeTensorMode():
        graph = traced(run, fake, table)
    results = _inline(gm, call, graph, values)
    for part in [user for user in call.users if user.target is operator.getitem]:
        _take_part(part, results)


def _take_part(part: Node, results: Any) -> None:
    """Replaces the `getitem` nodes of a call, also from nested tuples, by the results."""
    result = results[part.args[1]]
    if isinstance(result, Node):
        wanted = part.meta["val"]
        if result.meta["val"].dtype != wanted.dtype:
            # Before torch 2.12 the gradient of a captured tensor has the tensor's type, since then that of its sums.
            with part.graph.inserting_before(part):
                result = part.graph.call_function(aten._to_copy.default, (result,), {"dtype": wanted.dtype})
        # Views of the result were traced with the strides that torch's implementation gives it.
        result.meta = {**part.meta, **result.meta, "val": wanted}
        part.replace_all_uses_with(result)
    for inner in [user for user in part.users if user.target is operator.getitem and not isinstance(result, Node)]:
        _take_part(inner, result)


def _inline(gm: GraphModule, call: Node, inner: GraphModule, values: Sequence[Node]) -> Any:
    """Copies the nodes of a graph before `call`; returns what the graph returns, as nodes of `gm`."""
    at: dict[Node, Any] = dict(zip(inner.graph.find_nodes(op="placeholder"), values, strict=True))
    results: Any = None
    write = NodeWriter(gm, "scores")
    inner.graph.eliminate_dead_code()
    with gm.graph.inserting_before(call):
        for node in inner.graph.nodes:
            if node.op == "output":
                results = map_arg(node.args[0], at.__getitem__)
            elif node.target is aten._to_copy.default and isinstance(node.args[0], (int, float)):
                # vmap converts the numbers of a function first, such as the 20 of tanh(score / 20).
                at[node] = float(node.args[0]) if node.meta["val"].is_floating_point() else node.args[0]
            elif node.op == "get_attr":  # a tensor that a function makes of numbers
                held = attribute(inner, str(node.target))
                at[node] = write.constant(held, held.device)
            elif node not in at:
                at[node] = gm.graph.node_copy(node, at.__getitem__)
                at[node].meta = {**call.meta, "val": _value(node)}
    return results


def _value(node: Any) -> Any:
    """The fake value of a node. Before torch 2.12 one of the sizes of a tensor, as vmap asks for them, has none."""
    if "val" not in node.meta and node.target is operator.getitem:
        source, place = node.args
        return _value(source)[place]
    return node.meta["val"]


def _is_graph(gm: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(attribute(gm, str(node.target)), GraphModule)


def product(x: Tensor, y: Tensor) -> Tensor:
    """[B, H, M, K] and [B, H, K, N] → their product in f32, in f64 for f64."""
    return x.to(wide_type(x)) @ y.to(wide_type(x))


def wide_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
