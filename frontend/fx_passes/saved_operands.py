"""Saves values that a gradient compares with their own extreme (or saves the mask), instead of recomputing them.

The gradient of amax is shared equally among the elements that equal the maximum. A backward graph that recomputes the
elements in another kernel may round them differently. Then none equals the saved maximum, and 0 / 0 is NaN.
"""

from __future__ import annotations

import itertools

import torch
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_nodes import memory_root

aten = torch.ops.aten
_EXTREMES = frozenset({aten.amax.default, aten.amin.default, aten.max.default, aten.min.default})


def save_compared(graph: torch.fx.Graph) -> None:
    """Marks values in a joint graph that are compared with their own extremes as values to save."""
    for node in graph.find_nodes(op="call_function", target=aten.eq.Tensor):
        values = [memory_root(value) for value in node.all_input_nodes]
        for x, extreme in itertools.permutations(values, 2):
            if extreme.target in _EXTREMES and memory_root(extreme.all_input_nodes[0]) is x:
                x.meta["recompute"] = CheckpointPolicy.MUST_SAVE
