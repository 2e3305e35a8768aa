"""Finds elementwise nodes whose results take far more memory than what they read, such as comparisons of rows with
columns. Such a node joins its reader's kernel, which then reads the node's operands, not the kernel of these operands,
which would write the node's result. A node that reads nothing, such as a position, is computed again in any tile
(`counted`), so that it waits for no reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuesta._mlir import ir
from cuesta.dialects.types import byte_count
from cuesta.passes.form_kernels.fusion.nodes import Node

#: Bytes of what such nodes are computed from, over those of their results.
_MOST = 0.1


def spreading(nodes: Sequence[Node], writer: Mapping[ir.Value, Node]) -> frozenset[int]:
    """The indices of the elementwise nodes whose results take far more memory than the tensors that these nodes are
    computed from. `nodes` are in order; `writer` has the node that writes each value."""
    #: Node index → bytes of the tensors that the node is computed from, where these are few.
    sources: dict[int, int] = {}
    for node in nodes:
        makers = ((read, writer.get(read.value)) for read in node.reads)
        read = sum(r.bytes if maker is None else sources.get(maker.index, r.bytes) for r, maker in makers)
        if all(node.parallel) and not node.gathers and read < _MOST * sum(map(byte_count, node.results)):
            sources[node.index] = read
    return frozenset(index for index, read in sources.items() if read)
