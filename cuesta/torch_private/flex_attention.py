"""Names what flex_attention's graphs hold, and traces what they compute. Loads torch.nn.attention.flex_attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import _vmap_for_bhqkv


def add_at_positions() -> Any:
    """(shape, indices, values) → zeros to which the values are added at the indices: how a graph has the gradient of a
    tensor that a score function reads. Without it, training with such a tensor runs in Python."""
    return torch.ops.flex_lib.zeros_and_scatter.default


def for_all_scores(function: Callable[..., Any], scores: int, captured: int) -> Callable[..., Any]:
    """A function of `scores` (0 or 1) scores, the position in [B, H, L, S] and `captured` tensors, as a function of all
    scores at once. Without it, no flex_attention is compiled."""
    return _vmap_for_bhqkv(function, prefix=(0,) * scores, suffix=(None,) * captured)


def gradients_for_all_scores(joint: Callable[..., Any], captured: int) -> Callable[..., Any]:
    """A function of a score, its position, its gradient and `captured` tensors, as a function of all scores at once. It
    returns the gradients of the scores, four for the positions, which have none, and those of the captured tensors.
    Without it, no training step with flex_attention is compiled."""
    return _vmap_for_bhqkv(
        joint, prefix=(0,), suffix=(0, *(None,) * captured), out_dims=[0, *(None,) * 4, *(None,) * captured]
    )


def traced(function: Callable[..., Any], args: Sequence[Any], table: Mapping[Any, Callable[..., Any]]) -> GraphModule:
    """The graph of ATen ops that a function calls on fake tensors; `table` decomposes ops. Without it, no
    flex_attention is compiled."""
    return make_fx(function, decomposition_table=table)(*args)
