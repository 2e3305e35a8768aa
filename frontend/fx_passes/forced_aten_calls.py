"""Marks ops that the options want called in ATen, though cuesta could compile them; the importer reads the marks."""

from __future__ import annotations

import torch
from torch.fx import Node

from cuesta.frontend.fx_passes.bitwise import is_exact
from cuesta.frontend.rules import CALL_IN_ATEN
from cuesta.options import EAGERS_BITS, EAGERS_NUMBERS, Options
from cuesta.torch_private.ops import OpOverload


def mark_calls(gm: torch.fx.GraphModule, options: Options) -> None:
    """Marks nodes of a functional ATen graph that must be called in ATen, each with the reason."""
    for node in gm.graph.nodes:
        reason = _reason(node, options)
        if reason is not None:
            node.meta[CALL_IN_ATEN] = reason


def _reason(node: Node, options: Options) -> str | None:
    if not isinstance(node.target, OpOverload):
        return None
    if options.bitwise_eager and not is_exact(node):
        return EAGERS_BITS
    if options.fallback_random and _drops_on_gpu(node):
        return EAGERS_NUMBERS
    return None


def _drops_on_gpu(node: Node) -> bool:
    """Whether a node is a dropout on a GPU. Eager's kernel there draws random numbers in another order than cuesta,
    which draws the mask; on a CPU both draw the mask."""
    return node.target is torch.ops.aten.native_dropout.default and node.meta["val"][0].device.type != "cpu"
