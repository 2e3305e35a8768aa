"""Finds the nodes of a graph that compute a value which depends on no input, such as an attention mask, and the nodes
that write to any of these.

Works on the graphs of Dynamo and of AOTAutograd.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from cuesta.torch_private.fx import is_erased
from cuesta.torch_private.ops import OpOverload, schema_of

#: A value computed by more nodes than this counts as not constant.
_MOST_NODES = 500

#: Calls that read only the shape, dtype and device of their first operand.
_LIKE_METHODS = frozenset({"new_ones", "new_zeros", "new_full", "new_tensor", "size", "dim", "numel"})
_LIKE_FUNCTIONS = frozenset(
    {torch.ones_like, torch.zeros_like, torch.full_like}
    | {getattr(torch.ops.aten, name).default for name in ("ones_like", "zeros_like", "full_like")}
    | {getattr(torch.ops.aten, name).default for name in ("new_ones", "new_zeros", "new_full")}
)


class NotConstant(Exception):
    """Raised for a value that depends on an input or on random numbers, or that is too large to evaluate."""


def writers_before(user: Node) -> list[Node]:
    """The nodes before `user` that write to one of their operands."""
    return [n for n in itertools.takewhile(lambda n: n is not user, user.graph.nodes) if _writes(n)]


def steps_of(node: Node, user: Node) -> list[Node]:
    """All nodes that compute `node`, in the graph's order, with the nodes that write into any of them before `user`.

    Raises NotConstant where a tensor argument of the graph is among them; a number argument may be.
    """
    wanted: set[Node] = set()
    order = {n: i for i, n in enumerate(node.graph.nodes)}
    writers = writers_before(user)
    waiting = [node]
    while waiting:
        step = waiting.pop()
        if step not in wanted:
            wanted.add(step)
            waiting += _sources(step)
            if len(wanted) > _MOST_NODES:
                raise NotConstant("too many nodes")
        if not waiting:
            waiting = [n for n in writers if n not in wanted and not wanted.isdisjoint(_written(n))]
    return sorted(wanted, key=order.__getitem__)


def _sources(node: Node) -> list[Node]:
    """The nodes whose values a node reads."""
    if node.op == "placeholder" and isinstance(meta_of(node), (int, torch.SymInt)):
        return []
    if reads_no_values(node):
        return [n for n in node.all_input_nodes if n is not node.args[0]]
    if node.op not in ("call_function", "call_method", "get_attr"):
        raise NotConstant(f"it depends on {node.name}")
    return list(node.all_input_nodes)


def reads_no_values(node: Node) -> bool:
    """Whether a call reads of its first operand only the shape, dtype and device."""
    like = node.target in (_LIKE_METHODS if node.op == "call_method" else _LIKE_FUNCTIONS)
    return like and bool(node.args) and isinstance(meta_of(node.args[0]), torch.Tensor)


def _writes(node: Node) -> bool:
    """Whether a node writes to one of its operands."""
    target = node.target
    if node.op == "call_method":
        return _names_writer(str(target))
    if node.op != "call_function":
        return False
    if isinstance(target, OpOverload):
        return schema_of(target).is_mutable
    if getattr(target, "__module__", None) == "_operator":
        return target in _WRITING
    return "out" in node.kwargs or _names_writer(getattr(target, "__name__", ""))


def _names_writer(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _written(writer: Node) -> set[Node]:
    """The nodes that `writer` may write into: its `out` or first operand, and what that may be a view of."""
    found: set[Node] = set()
    target = writer.kwargs.get("out", writer.args[0] if writer.args else None)
    while isinstance(target, Node):
        found.add(target)
        target = target.args[0] if target.args else None
    return found


_WRITING = frozenset(
    {
        operator.setitem,
        *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
        *(operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift),
        *(operator.ipow, operator.imatmul),
    }
)


def meta_of(node: Any) -> Any:
    """A node's value as Dynamo or AOTAutograd traced it: a fake tensor, a number; None where the node has no value."""
    return (node.meta.get("example_value", node.meta.get("val"))) if isinstance(node, Node) else None


def erase_unused(nodes: Iterable[Node]) -> None:
    """Erases the unused nodes among `nodes` and among the nodes that compute them, except for nodes that write."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        calls = node.op in ("call_function", "call_method", "get_attr")
        if is_erased(node) or node.users or not calls or _writes(node) or node.is_impure():
            continue
        waiting += node.all_input_nodes
        node.graph.erase_node(node)
