"""Writes what follows a sum that a thread holds for one row, or for one place, of windows."""

from __future__ import annotations

from cuesta._mlir import arith
from cuesta.dialects import tt
from cuesta.lowering.linalg_to_tt.frame import Frame, Value
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


def place_one(frame: Frame, c: int, at: Value, block: int) -> None:
    """Places a frame at position `at` along class c, one of a block of which each position is a value of its own. The
    last block may reach beyond the end of the class; stores are masked there."""
    frame.place(c, at)
    if not frame.scalars.divides(block, frame.sizes[c]):
        within = arith.cmpi(arith.CmpIPredicate.slt, at, frame.scalar(frame.sizes[c]))
        frame.masks[c] = tt.splat(within, frame.unit)


def emit_behind(writer: KernelWriter, node: Node, total: Value) -> None:
    """Computes all nodes that are not computed yet, once the result of `node` is `total`."""
    writer.blocks[node.op.results[0]] = total
    for other in writer.nodes:
        if other.op.results[0] not in writer.blocks:
            writer.emit(other)
