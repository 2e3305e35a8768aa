"""Names torch's flex_attention as graphs hold it. Loads torch._higher_order_ops.flex_attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

# The steps of a graph that call flex_attention and compute its gradients. Without them both run in Python, one op after
# the other, as torch's own implementation.
from torch._higher_order_ops.flex_attention import flex_attention as FORWARD
from torch._higher_order_ops.flex_attention import flex_attention_backward as BACKWARD
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import _vmap_for_bhqkv

__all__ = ["BACKWARD", "FORWARD", "add_at_positions", "for_all_scores", "traced"]


def add_at_positions() -> Any:
    """(shape, indices, values) → zeros to which the values are added at the indices: how a graph has the gradient of a
    tensor that a score function reads. Without it, training with such a tensor runs in Python."""
    return torch.ops.flex_lib.zeros_and_scatter.default


def for_all_scores(function: Callable[..., Any], arguments: Sequence[str]) -> Callable[..., Any]:
    """A function of one score and its position in [B, H, L, S], as a function of all of them at once. Without it, no
    flex_attention is compiled.

    `arguments` says what the function takes beside the four positions: "score" before them, "gradient" of the score and
    "captured" tensors after them. A function that takes a gradient returns one for each other argument."""
    before = [0 for kind in arguments if kind == "score"]
    after = [0 if kind == "gradient" else None for kind in arguments if kind != "score"]
    results = [0, *(None for kind in arguments if kind == "captured")] if "gradient" in arguments else 0
    if isinstance(results, list):
        results[1:1] = [None] * 4  # positions have no gradients
    return _vmap_for_bhqkv(function, prefix=tuple(before), suffix=tuple(after), out_dims=results)


def traced(function: Callable[..., Any], args: Sequence[Any], table: Mapping[Any, Callable[..., Any]]) -> GraphModule:
    """The graph of ATen ops that a function calls on fake tensors; `table` decomposes ops. Without it, no
    flex_attention is compiled."""
    return make_fx(function, decomposition_table=table)(*args)
