"""Finds the nodes of a graph of ATen ops whose values depend on no input, and which of them other nodes read."""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import reads_no_values
from cuesta.frontend.constant_values import is_held_constant
from cuesta.frontend.fx_nodes import makes, packet_of
from cuesta.frontend.python_steps import is_view
from cuesta.torch_private.ops import OpOverload, schema_of

aten = torch.ops.aten

#: The most elements of a tensor that a graph holds.
LARGEST = 1 << 20
#: Ops whose results have no values yet.
_UNWRITTEN = frozenset({aten.empty, aten.empty_strided, aten.empty_permuted})


def constants_of(gm: GraphModule) -> dict[Node, frozenset[Node]]:
    """The nodes that depend on no input → those among the nodes that compute them, themselves included, that are more
    than one number or one `arange`."""
    found: dict[Node, frozenset[Node]] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "get_attr" and is_held_constant(node):
            found[node] = frozenset({node})
        if not isinstance(value, Tensor) or not isinstance(node.target, OpOverload) or not _is_held(value):
            continue
        if is_constructor(node):
            found[node] = frozenset()
        elif node.all_input_nodes and _repeats(node.target) and all(n in found for n in node.all_input_nodes):
            own = frozenset[Node]() if is_view(node) else frozenset({node})
            found[node] = own.union(*(found[n] for n in node.all_input_nodes))
    return found


def is_constructor(node: Node) -> bool:
    """Whether a node's values follow from the numbers in its call alone, as those of `full`, `arange` and `new_zeros`
    do."""
    if not isinstance(node.target, OpOverload) or packet_of(node) in _UNWRITTEN or not _repeats(node.target):
        return False
    values = [n for n in node.all_input_nodes if not (reads_no_values(node) and n is node.args[0])]
    return not values and (makes(node) or reads_no_values(node))


def _repeats(target: OpOverload) -> bool:
    """Whether an op writes no operand, and gives the same result in each call."""
    return not schema_of(target).is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _is_held(value: Tensor) -> bool:
    """Whether the graph may hold a value of these sizes."""
    if value.layout != torch.strided or not all(isinstance(n, int) for n in value.shape):
        return False
    return value.untyped_storage().nbytes() <= 8 * LARGEST


def is_read(node: Node, constants: Container[Node]) -> bool:
    """Whether nodes that depend on an input read `node`, or a view of it. `node` itself is no view."""
    return not is_view(node) and any(_reads(user, constants) for user in node.users)


def _reads(user: Node, constants: Container[Node]) -> bool:
    """Whether `user` depends on an input, or is a view that such a node reads."""
    if user in constants and is_view(user):
        return any(_reads(n, constants) for n in user.users)
    return user not in constants


def is_returned(node: Node) -> bool:
    """Whether the graph returns a value, or a view of it: its caller may write into what it gets."""
    return any(user.op == "output" or (is_view(user) and is_returned(user)) for user in node.users)
