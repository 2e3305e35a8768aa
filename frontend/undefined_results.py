"""Finds results that ATen leaves undefined though torch's fake kernels give a tensor: Python sees None instead.

A program does not ask ATen for undefined results, and returns None as eager does. Where the fake kernel gives None as
well, as for results that an output mask leaves out, the graph says so itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.errors import CompileError, Unsupported
from cuesta.torch_private.aot_graphs import SavedForBackwardsAOTOutput, SavedForBackwardsNoVcCheckAOTOutput
from cuesta.torch_private.ops import schema_of

aten = torch.ops.aten

#: Overload → the positions of its undefined results, from its arguments by name.
_UNDEFINED: dict[Any, Callable[[Mapping[str, Any]], frozenset[int]]] = {
    # Result 1 is the attention weights.
    aten._native_multi_head_attention.default: lambda given: frozenset() if given["need_weights"] else frozenset({1}),
    # Result 3 is oneDNN's workspace for the backward pass. ATen keeps it only where autograd is on, which is never the
    # case while a graph of AOTAutograd runs.
    aten.mkldnn_rnn_layer.default: lambda given: frozenset({3}),
}


def without_undefined(node: Node) -> Any:
    """The traced results of a node, with None in the places of undefined results."""
    metas: Any = node.meta.get("val")
    undefined = _undefined_results(node)
    return [None if i in undefined else meta for i, meta in enumerate(metas)] if undefined else metas


def refuse_reads(gm: GraphModule) -> None:
    """Raises Unsupported where an op of a graph takes an undefined result; in eager that raises as well."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and any(map(_is_undefined, node.all_input_nodes)):
            raise Unsupported(f"{node.target} takes a tensor that ATen leaves undefined")


def refuse_saved(gm: GraphModule) -> None:
    """Raises CompileError where a forward graph saves an undefined result for its backward graph."""
    (output,) = gm.graph.find_nodes(op="output")
    saved = (SavedForBackwardsAOTOutput, SavedForBackwardsNoVcCheckAOTOutput)
    for item, what in zip(output.args[0], output.meta.get("desc", ()), strict=False):
        if isinstance(what, saved) and _is_undefined(item):
            op = item.args[0].target
            raise CompileError(
                f"the gradient of {op} needs its result {item.args[1]}, which ATen gives to no graph of AOTAutograd's "
                "(it does where autograd runs the op): leave the op to eager by torch.compiler.disable, or write it "
                "as torch.nn.LSTM, which is compiled in other ops where it is trained"
            )


def _undefined_results(node: Node) -> frozenset[int]:
    """The positions of a node's undefined results."""
    find = _UNDEFINED.get(node.target)
    if find is None:
        return frozenset()
    arguments = schema_of(node.target).arguments
    given = {argument.name: argument.default_value for argument in arguments}
    given.update(zip((argument.name for argument in arguments), node.args, strict=False))
    return find({**given, **node.kwargs})


def _is_undefined(node: Any) -> bool:
    """Whether a node is the `getitem` of an undefined result."""
    if not isinstance(node, Node) or node.target is not operator.getitem:
        return False
    source, position = node.args
    return isinstance(source, Node) and position in _undefined_results(source)
