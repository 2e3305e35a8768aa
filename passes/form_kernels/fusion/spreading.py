"""Finds elementwise nodes whose results take far more memory than what they read, such as comparisons of rows with
columns, or than what other nodes compute for them, such as the product of a tensor that is in memory by a factor for
each row. Such a node joins its reader's kernel, which then reads the node's operands, not the kernel of these operands,
which would write the node's result. A node that reads nothing, such as a position, is computed again in any tile
(`counted`), so that it waits for no reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuesta._mlir import ir
from cuesta.dialects.types import byte_count
from cuesta.passes.form_kernels.fusion.nodes import Node

#: Bytes of what such nodes are computed from, over those of their results.
_MOST = 0.1


def spreading(
    nodes: Sequence[Node], writer: Mapping[ir.Value, Node], only_reader: Callable[[Node], Node | None]
) -> frozenset[int]:
    """The indices of the elementwise nodes whose results take far more memory than the tensors that these nodes are
    computed from, or, of nodes with one reader, than those of them that other nodes compute. `nodes` are in order;
    `writer` has the node that writes each value, `only_reader` the one that reads a node's results."""
    #: Node index → bytes of the tensors in memory and of other nodes' results that it is computed from.
    sources: dict[int, tuple[int, int]] = {}
    for node in nodes:
        read = made = 0
        for operand in node.reads:
            maker = writer.get(operand.value)
            beyond = (operand.bytes, 0) if maker is None else sources.get(maker.index, (0, operand.bytes))
            read, made = read + beyond[0], made + beyond[1]
        most = _MOST * sum(map(byte_count, node.results))
        few = made < most if only_reader(node) is not None else read + made < most
        if all(node.parallel) and not node.gathers and few:
            sources[node.index] = (read, made)
    return frozenset(index for index, (read, made) in sources.items() if read or made)
