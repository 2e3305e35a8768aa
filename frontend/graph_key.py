"""Spells a graph as text that is equal for equal graphs, to look up its cache entry.

The text is made from FX directly, so that a cache hit needs neither import nor MLIR. It contains sizes,
strides, dtypes and all arguments, but no names of nodes and no source lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

#: Key in the output node's meta. Its value says which results share the memory of an argument that the graph writes:
#: position of the result → position of the argument (frontend/capture/aliased_outputs.py).
ALIASES = "cuesta.aliases"


def graph_key(gm: GraphModule) -> str:
    """The text of a graph whose sizes are all numbers."""
    numbers = {node: i for i, node in enumerate(gm.graph.nodes)}

    def spell(arg: Any) -> str:
        if isinstance(arg, Node):
            return f"%{numbers[arg]}"
        if isinstance(arg, (list, tuple)):
            return f"[{','.join(spell(a) for a in arg)}]"
        if isinstance(arg, dict):
            return f"{{{','.join(f'{k}={spell(v)}' for k, v in arg.items())}}}"
        return f"{type(arg).__name__}:{arg!r}"

    lines = []
    for node in gm.graph.nodes:
        line = f"{node.op} {spell(node.args)} {spell(node.kwargs)}"
        if node.op == "call_function":
            line += f" {node.target}"
        if node.op in ("placeholder", "get_attr"):
            line += f" {_describe(_example(gm, node))}"
        elif node.op == "output":
            # torch relies on the traced strides of results, whatever strides the ops before them would give.
            line += " ".join(_describe(a.meta.get("val")) for a in node.args[0] if isinstance(a, Node))
            line += f" {dict(aliases_of(node))}"
        lines.append(line)
    if torch.are_deterministic_algorithms_enabled():
        lines.append("deterministic")
    return "\n".join(lines)


def _example(gm: GraphModule, node: Node) -> Any:
    return attribute(gm, str(node.target)) if node.op == "get_attr" else node.meta.get("val")


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        flags = f"{value.layout}{value.device}{value.is_conj()}{value.is_neg()}"
        return f"{value.dtype}{tuple(value.shape)}{value.stride() if value.layout == torch.strided else ''}{flags}"
    return f"{type(value).__name__}:{value!r}"


def aliases_of(output: Node) -> Mapping[int, int]:
    """Position of a result → position of the argument, as frontend/capture/aliased_outputs.py noted them."""
    found: Mapping[int, int] = output.meta.get(ALIASES, {})
    return found


def held_nodes(gm: GraphModule) -> list[Node]:
    """The nodes of the module's own tensors, in the order in which a program takes them after its arguments."""
    return [node for node in gm.graph.nodes if node.op == "get_attr" and node.users]


def attribute(gm: GraphModule, target: str) -> Any:
    """The attribute of the module that a get_attr node names."""
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value
