"""Unwraps ops that return no tensor and run only for the error that they may raise, so that programs contain them.

    %with_effects = with_effects(%token, aten._linalg_check_errors, %info, "linalg.inv", is_matrix = True)
    %next = %with_effects[0]
→
    aten._linalg_check_errors(%info, "linalg.inv", is_matrix = True)                          %token in place of %next

Tokens only keep such ops in order; the ops of a program keep their order anyway. Imports no MLIR.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

#: Ops that read their operands and either raise or do nothing.
_CHECKS: frozenset[Any] = frozenset(
    {
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._linalg_check_errors.default,
    }
)

for _op in _CHECKS:
    torch.fx.node.has_side_effect(_op)  # torch 2.13 drops the assertion without a message while it traces


def is_effect(node: Node) -> bool:
    """Whether a node is a check on the CPU. A check on a GPU does not count: the program would have to wait for the
    value that it reads."""
    return node.op == "call_function" and node.target in _CHECKS and _is_on_cpu(node)


def is_unread_check(node: Node) -> bool:
    """Whether a node is a check of a value on a GPU. Where a program runs, torch makes such checks between programs. A
    graph that is only compiled, for a GPU that this machine lacks, has none of them, but those that eager makes on a
    CPU, such as that of `one_hot`, which are left out."""
    return node.op == "call_function" and node.target in _CHECKS and not _is_on_cpu(node)


def _is_on_cpu(node: Node) -> bool:
    values = [n.meta.get("val") for n in node.all_input_nodes]
    return all(value.device.type == "cpu" for value in values if isinstance(value, torch.Tensor))


def unwrap_effects(gm: GraphModule) -> None:
    """Replaces each `with_effects` around a check by the plain call of the check."""
    nodes = gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects)
    wrapped = [n for n in nodes if n.args[1] in _CHECKS and _is_on_cpu(n)]
    for node in wrapped:
        token, op, *args = node.args
        with gm.graph.inserting_before(node):
            plain = gm.graph.call_function(op, tuple(args), dict(node.kwargs))
        plain.meta = node.meta | {"val": None}
        for part in list(node.users):  # item 0 is the next token; item 1 is the op's result, which is None
            if part.args[1] == 0:
                part.replace_all_uses_with(token)
            if not part.users:
                gm.graph.erase_node(part)
        gm.graph.erase_node(node)
        if token.op == "placeholder" and all(user.op == "output" for user in token.users):
            token.meta = token.meta | {"val": None}  # a call passes None as the token
    if wrapped:
        gm.recompile()
