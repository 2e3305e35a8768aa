"""Decides what a kernel may hold beside a sum of products of windows: elementwise work on its result.

A program sums a block of the result, a few rows of windows, and loads each element of these once for all of its rows.
So every class but those of a window's places is parallel, and no other op walks the places. The gradient of a weight
is a sum over the windows: the classes of its places and channels are parallel, and no other op walks the windows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Loop, Space


def window_refusal(space: Space, nodes: Sequence[Node], parallel: Collection[Loop]) -> str | None:
    """Why `nodes` cannot be one kernel whose programs run over the classes `parallel`, if one of them sums over
    windows; None if they can, or none does."""
    sums = [node for node in nodes if node.windows]
    if not sums:
        return None
    if len(sums) > 1:
        return "both ops sum over windows"
    (first,) = sums
    kept = {c for c, free in zip(space.classes[first.index], first.parallel, strict=True) if free}
    if not kept <= set(parallel):
        return "the op's loops are not those of the sum over windows, of which a program computes a block"
    for node in nodes:
        if node is not first and not (all(node.parallel) and set(space.classes[node.index]) <= kept):
            return "only elementwise ops on its result join a sum over windows"
    return None
