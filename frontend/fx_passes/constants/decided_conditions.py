"""Takes the branch of a choice whose condition is the same everywhere, whatever the inputs are.

    %rows = arange(512)
    %c = expand(ge(add(%rows, 0), 0))        →    %y = expand(%x)
    %y = where(%c, %x, -3.4e38)

transformers builds its masks of such comparisons. A mask that hides nothing would still be written for each text, and
attention would read it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate
from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.constants.found_constants import constants_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter, replace_each
from cuesta.frontend.python_steps import is_view
from cuesta.torch_private.fake_tensors import unset_fake_temporarily

aten = torch.ops.aten

#: The most elements of a condition that is evaluated, without those of expanded dims.
_LARGEST = 1 << 20
#: Ops on conditions → the decided operand that leaves the other as the result.
_NEUTRAL = {aten.logical_and: True, aten.bitwise_and: True, aten.logical_or: False, aten.bitwise_or: False}


def decide_conditions(gm: GraphModule) -> None:
    """Replaces choices, conjunctions and disjunctions by an operand, in place, where constants decide which."""
    choices = [node for node in gm.graph.nodes if _is_choice(node)]
    if not choices:
        return
    constants = constants_of(gm)
    known: dict[Node, bool | None] = {}

    def decided(condition: Any) -> bool | None:
        if condition not in constants:
            return None
        if condition not in known:
            known[condition] = _decided(condition)
        return known[condition]

    def operand(write: NodeWriter, node: Node) -> Node | None:
        if packet_of(node) is aten.where:
            taken = decided(node.args[0])
            return None if taken is None else _as(write, node.args[1 if taken else 2], node)
        for one, other in (node.args, node.args[::-1]):
            if decided(one) is _NEUTRAL[packet_of(node)]:
                return _as(write, other, node)
        return None

    replace_each(gm, "conditions", choices, operand)


def _is_choice(node: Node) -> bool:
    """Whether a node chooses by a condition, or joins two conditions, all of known sizes, and no result of the graph is
    the node or a view of it: that would then be an argument, or share the memory of other results."""
    packet, value = packet_of(node), node.meta.get("val")
    if not isinstance(value, Tensor) or not all(isinstance(n, int) for n in value.shape) or _is_returned(node):
        return False
    if packet is aten.where:
        return len(node.args) == 3
    return packet in _NEUTRAL and all(isinstance(n, Node) and n.meta["val"].dtype == torch.bool for n in node.args)


def _is_returned(node: Node) -> bool:
    """Whether a result of the graph is the node, or a view of it."""
    return any(user.op == "output" or (is_view(user) and _is_returned(user)) for user in node.users)


def _decided(condition: Node) -> bool | None:
    """What a condition that depends on no input is everywhere; None if it is true at some places and false at others,
    or too large to evaluate."""
    value = condition.meta["val"]
    own = [size if stride else 1 for size, stride in zip(value.shape, value.stride(), strict=True)]
    if math.prod(own) > _LARGEST or not value.numel():
        return None
    try:
        found: Tensor = evaluate(condition, condition)
    except NotConstant:
        return None
    with unset_fake_temporarily():
        for dim, size in enumerate(own):
            found = found.narrow(dim, 0, size)
        return True if found.all() else None if found.any() else False


def _as(write: NodeWriter, operand: Any, node: Node) -> Node | None:
    """An operand of a pointwise op as the op's result. None for a number, which may be a tensor elsewhere, and where
    views would find other strides."""
    wanted = node.meta["val"]
    if not isinstance(operand, Node) or operand.meta["val"].device != wanted.device:
        return None
    if operand.meta["val"].dtype != wanted.dtype:
        operand = write.call(aten._to_copy.default, operand, dtype=wanted.dtype)
    if operand.meta["val"].shape != wanted.shape:
        operand = write.call(aten.expand.default, operand, list(wanted.shape))
    if any(map(is_view, node.users)) and operand.meta["val"].stride() != wanted.stride():
        operand = write.call(aten.clone.default, operand)
        if operand.meta["val"].stride() != wanted.stride():
            return None
    return operand
