"""Finds out what a mask that is added to attention's scores can hide.

where(%c, %bias, -3.4e38)           hides where %c does not hold
index(%table, [%i]) + %bias         hides nothing if %bias does not: the table's numbers are learned
%argument                           may hide: its numbers say where
"""

from __future__ import annotations

import torch
from torch.fx import Node

from cuesta.frontend.fx_nodes import filling_of, is_conversion, packet_of, tensor_nodes
from cuesta.frontend.python_steps import is_view

aten = torch.ops.aten

#: Ops whose results are weighted sums, or elements of a table.
_SUMS = (aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.convolution)
_READS = (aten.index, aten._unsafe_index, aten.embedding, aten.gather, aten.index_select)


def condition_of(mask: Node) -> Node | None:
    """A condition without which a mask hides a key, with the mask's dims, of which some may be 1; None if none is
    known."""
    packet = packet_of(mask)
    if is_conversion(mask) or packet in (aten.expand, aten.clone):
        found = [condition_of(mask.args[0])]  # type: ignore[arg-type]
    elif packet is aten.add:
        found = [condition_of(operand) for operand in tensor_nodes(mask.args)]
    else:
        found = [mask.args[0]] if _is_choice(mask) else []  # type: ignore[list-item]
    dims = mask.meta["val"].dim()
    return next((c for c in found if c is not None and c.meta["val"].dim() == dims), None)


def _is_choice(mask: Node) -> bool:
    """Whether a mask is what its first operand chooses, and elsewhere a number that hides."""
    if packet_of(mask) is not aten.where:
        return False
    number, lowest = filling_of(mask.args[2]), torch.finfo(mask.meta["val"].dtype).min
    return number is not None and number <= lowest / 2


def may_hide(mask: Node, keys: int) -> bool:
    """Whether some element of a mask over so many keys may be so low that its key weighs nothing."""
    packet = packet_of(mask)
    if packet in _SUMS:
        return False
    if packet in _READS:
        (table, *_) = tensor_nodes(mask.args)
        return not table.meta["val"].is_floating_point()
    if is_view(mask) or is_conversion(mask) or packet is aten.clone:
        return may_hide(mask.args[0], keys)  # type: ignore[arg-type]
    if torch.Tag.pointwise in getattr(mask.target, "tags", ()) and filling_of(mask) is None:
        return _is_choice(mask) or any(may_hide(operand, keys) for operand in tensor_nodes(mask.args))
    # A number for each head hides no key.
    return bool(mask.meta["val"].numel() >= keys)
