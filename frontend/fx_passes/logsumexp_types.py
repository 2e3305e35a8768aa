"""Corrects the type of f64 attention's logsumexp on a CPU: torch before 2.13 traces f32, and its kernel gives f64.

    %0 = _scaled_dot_product_flash_attention_for_cpu(f64 …)         %0 = …
    %1 = getitem(%0, 1)  : f32                                →     %1 = getitem(%0, 1)  : f64

Before the split, since the backward graph's argument is of the type that the saved value has here. Torch 2.13 traces
f64 itself, and then nothing changes.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def type_logsumexps(gm: GraphModule) -> None:
    """Gives the logsumexp of each attention of f64 the type that the kernel for CPUs gives it."""
    for node in gm.graph.find_nodes(op="call_function", target=_ATTENTION):
        output, logsumexp = node.meta["val"]
        if output.dtype != torch.float64 or logsumexp.dtype == torch.float64:
            continue
        with logsumexp.fake_mode:
            wide = logsumexp.to(torch.float64)  # of the same strides
        node.meta["val"] = (output, wide)
        for part in node.users:
            if part.target is operator.getitem and part.args[1] == 1:
                part.meta["val"] = wide
