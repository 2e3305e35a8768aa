"""Finds out what a mask that is added to attention's scores can hide.

where(%c, %bias, -3.4e38)           hides where %c does not hold
index(%table, [%i]) + %bias         hides nothing if %bias does not: the table's numbers are learned
%argument                           may hide: its numbers say where
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cuesta.frontend.fx_nodes import filling_of, is_conversion, is_pointwise, packet_of, tensor_nodes
from cuesta.frontend.python_steps import is_view

aten = torch.ops.aten

#: Ops whose results are sums of products, and ops that read elements of a table at positions.
_SUMS = (aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.convolution)
_READS = (aten.index, aten._unsafe_index, aten.embedding, aten.gather, aten.index_select)


def condition_of(mask: Node, keys: int) -> Node | None:
    """The condition without which a mask over so many keys hides a key, where nothing else in the mask may hide one. It
    has the mask's dims, of which some may be 1. None if no such condition is known. Where a second term hides all that
    the first one shows of a row, the row sees nothing, and all its keys weigh the same: the condition of one term would
    say too little."""
    found: Node | None = None
    if is_conversion(mask) or packet_of(mask) in (aten.expand, aten.clone):
        found = condition_of(mask.args[0], keys)  # type: ignore[arg-type]
    elif packet_of(mask) is aten.add and not mask.kwargs:
        hiding = [operand for operand in tensor_nodes(mask.args) if may_hide(operand, keys)]
        found = condition_of(hiding[0], keys) if len(hiding) == 1 else None
    elif _is_choice(mask) and not _hides_too(mask.args[1], keys):
        found = mask.args[0]  # type: ignore[assignment]
    return found if found is not None and found.meta["val"].dim() == mask.meta["val"].dim() else None


def _is_choice(mask: Node) -> bool:
    """Whether a mask is what its first operand chooses, and elsewhere a number that hides."""
    return packet_of(mask) is aten.where and _is_lowest(mask.args[2])


def _hides_too(shown: Any, keys: int) -> bool:
    """Whether what a mask has where it shows keys may hide some."""
    return _is_lowest(shown) if filling_of(shown) is not None else may_hide(shown, keys)


def _is_lowest(operand: Any) -> bool:
    """Whether all numbers of a tensor are one that is so low that its key weighs nothing."""
    number = filling_of(operand)
    return number is not None and number <= torch.finfo(operand.meta["val"].dtype).min / 2


def may_hide(mask: Node, keys: int) -> bool:
    """Whether some element of a mask over so many keys may be so low that its key weighs nothing."""
    pending: list[Any] = [mask]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        packet = packet_of(node)
        if node in seen or packet in _SUMS:
            continue
        seen.add(node)
        if packet in _READS:
            (table, *_) = tensor_nodes(node.args)
            if not table.meta["val"].is_floating_point():
                return True
        elif is_view(node) or is_conversion(node) or packet is aten.clone:
            pending.append(node.args[0])
        elif is_pointwise(node) and filling_of(node) is None:
            if _is_choice(node):
                return True
            pending += tensor_nodes(node.args)
        elif node.meta["val"].numel() >= keys:  # a number for each head hides no key
            return True
    return False
