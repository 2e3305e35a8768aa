"""Classifies attention masks that the graph itself computes, by evaluating them.

Models of the transformers library build their masks from arange and comparisons. Such a mask depends on no input: its
subgraph is run on the CPU, and the result inspected.

    kv <= q, expanded   →  "causal"          q >= 0, expanded   →  "all"
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cuesta.frontend.attention import symbolic_masks
from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import LARGEST, evaluate


def classify_mask(node: Node, user: Node, length: Any, keys: Any) -> str | None:
    """The kind of a mask over [.., `length`, `keys`], with its value where `user` reads it.

    "all" (nothing hidden), "causal" (row i sees columns ≤ i), else None.

    A boolean mask shows where it is true. An additive mask shows where it is 0 and hides where it is at or
    below the lowest finite number.
    """
    if not isinstance(length, int) or not isinstance(keys, int):
        return symbolic_masks.classify(node, user, length, keys)
    if length * keys > LARGEST:
        return None
    try:
        mask = evaluate(node, user)
    except NotConstant:
        return None
    if not isinstance(mask, torch.Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        return None
    # Along a broadcast dim, one element stands for all.
    mask = mask[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in mask.stride())]
    if mask.dtype == torch.bool:
        shown = mask
    else:
        shown = mask == 0
        if not bool((shown | (mask <= torch.finfo(mask.dtype).min)).all()):
            return None
    if bool(shown.all()):
        return "all"
    try:
        shown = shown.expand(*shown.shape[:-2], length, keys)
    except RuntimeError:
        return None
    causal = torch.ones(length, keys, dtype=torch.bool).tril()
    return "causal" if bool((shown == causal).all()) else None
