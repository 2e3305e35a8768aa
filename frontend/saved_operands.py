"""What is compared with its extreme for a gradient is not computed again: it, or the mask, is saved.

The gradient of amax goes to the elements that equal it, divided by how many there are. A backward graph that computes
these again may round otherwise, in another kernel: none equals the saved maximum then, and 0 / 0 is NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten
_EXTREMES = frozenset({aten.amax.default, aten.amin.default, aten.max.default, aten.min.default})


def save_compared(graph: torch.fx.Graph) -> None:
    """Marks, in a joint graph, values that are compared with their own extremes."""
    for node in graph.nodes:
        if node.target is aten.eq.Tensor:
            for value, other in (node.args, node.args[::-1]):
                extreme, x = _base(other), _base(value)
                if getattr(extreme, "target", None) in _EXTREMES and _base(extreme.args[0]) is x:
                    x.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _base(value: Any) -> Any:
    """What a value is a view of, in the end."""
    while isinstance(value, torch.fx.Node) and isinstance(value.target, torch._ops.OpOverload) and value.target.is_view:
        value = value.args[0]
    return value
