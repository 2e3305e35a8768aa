"""What is compared with its extreme for a gradient is not computed again: it, or the mask, is saved.

The gradient of amax goes to the elements that equal it, divided by how many there are. A backward graph that computes
these again may round otherwise, in another kernel: none equals the saved maximum then, and 0 / 0 is NaN.
"""

from __future__ import annotations

import itertools

import torch
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_nodes import memory_root

aten = torch.ops.aten
_EXTREMES = frozenset({aten.amax.default, aten.amin.default, aten.max.default, aten.min.default})


def save_compared(graph: torch.fx.Graph) -> None:
    """Marks, in a joint graph, values that are compared with their own extremes."""
    for node in graph.find_nodes(op="call_function", target=aten.eq.Tensor):
        values = [memory_root(value) for value in node.all_input_nodes]
        for x, extreme in itertools.permutations(values, 2):
            if extreme.target in _EXTREMES and memory_root(extreme.all_input_nodes[0]) is x:
                x.meta["recompute"] = CheckpointPolicy.MUST_SAVE
