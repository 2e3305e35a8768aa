"""Decides what joins the kernel of a scatter, which writes at computed positions.

Where each write is atomic, on a GPU, the kernel may have other results, and several scatters: the gradients of edges
are added up for the nodes at both ends. Where writes follow one another, on a CPU, it takes in only producers whose
results nothing else reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Loop, Space, class_sizes


def scatter_refusal(nodes: Sequence[Node], internal: Collection[int], atomics: bool) -> str | None:
    """The reason why `nodes`, of which one or more scatter, are not one kernel; None if they may be. `internal` are the
    indices of those whose results only the others read, `atomics` says that each write is atomic."""
    scatters = [n for n in nodes if n.base is not None]
    bases = [alias_root(n.base) for n in scatters if n.base is not None]
    if len({*bases}) < len(bases):
        return "both ops scatter into one tensor"
    others = [n for n in nodes if n.base is None]
    made = {r for n in nodes for r in n.results}
    written = {r for n in scatters for r in n.results}
    if not made.isdisjoint(bases) or any(r.value in written for n in nodes for r in n.reads):
        return "the other op makes or reads what the scatter writes"
    if not all(n.is_elementwise for n in others):
        return "a scatter fuses only with elementwise ops"
    if not atomics and len(scatters) > 1:
        return "both ops scatter"
    if not atomics and _writes_more(nodes, internal):
        return "a scatter fuses only with producers that nothing else reads"
    return None


def scatter_loops_refusal(
    group: tuple[Sequence[Node], Space, Collection[Loop]], internal: Collection[int]
) -> str | None:
    """The reason why the nodes of a group, of which one or more scatter, are not one kernel; None if they may be. With
    several results, its tiles must run over all loops of the kernel: a result that lacks one has other loops than the
    scatter. `group` has the nodes, their space, and the classes that tiles run over; `internal` is as above."""
    nodes, space, parallel = group
    if len(parallel) == len(class_sizes(space, nodes)) or not _writes_more(nodes, internal):
        return None
    return "what a scatter's kernel writes besides has other loops"


def _writes_more(nodes: Sequence[Node], internal: Collection[int]) -> bool:
    """Whether a kernel has another result than that of one scatter."""
    return len(internal) < len(nodes) - 1
