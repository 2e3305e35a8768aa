"""Ops that give no tensor and are run for what they may raise: a program holds them where they stand.

    %with_effects = with_effects(%token, aten._linalg_check_errors, %info, "linalg.inv", is_matrix = True)
    %next = %with_effects[0]
→
    aten._linalg_check_errors(%info, "linalg.inv", is_matrix = True)                          %token in place of %next

Tokens only say that such ops keep their order, which those of a program do. Imports no MLIR.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

#: They read their operands and raise, or do nothing.
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
    """Whether a node is run for what it may raise, on a CPU: on a GPU a program would wait for what it looks at."""
    return node.op == "call_function" and node.target in _CHECKS and _is_on_cpu(node)


def _is_on_cpu(node: Node) -> bool:
    values = [n.meta.get("val") for n in node.all_input_nodes]
    return all(value.device.type == "cpu" for value in values if isinstance(value, torch.Tensor))


def unwrap_effects(gm: GraphModule) -> None:
    """Takes the ops that programs hold out of `with_effects`."""
    nodes = gm.graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects)
    wrapped = [n for n in nodes if n.args[1] in _CHECKS and _is_on_cpu(n)]
    for node in wrapped:
        token, op, *args = node.args
        with gm.graph.inserting_before(node):
            plain = gm.graph.call_function(op, tuple(args), dict(node.kwargs))
        plain.meta = node.meta | {"val": None}
        for part in list(node.users):  # item 0 is the next token; item 1 is what the op returns, which is nothing
            if part.args[1] == 0:
                part.replace_all_uses_with(token)
            if not part.users:
                gm.graph.erase_node(part)
        gm.graph.erase_node(node)
        if token.op == "placeholder" and all(user.op == "output" for user in token.users):
            token.meta = token.meta | {"val": None}  # which it is in a call
    if wrapped:
        gm.recompile()
