"""Writes what a program does with each of a few elements that lie far apart as ops of its own.

    %y = sum(f(%x)) along c, of 2 elements        %0 = 0 + f(%x at 0)
                                             →    %y = %0 + f(%x at 1)

The block has no axis for them. Along an axis of a block, such elements would be in several threads, and each sum of two
would go through shared memory: sums over the two halves of a ResNeSt's channels, before their mean over pixels, took
140 µs for 77 MB on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir, tensor
from cuesta.dialects.clones import clone_op
from cuesta.dialects.upstream_fields import INDEXING_MAPS
from cuesta.lowering.linalg_to_tt.frame import Value
from cuesta.lowering.linalg_to_tt.kernel import Node


def take_singly(nodes: Sequence[Node], c: int, own: Sequence[int]) -> list[Node]:
    """The nodes of a kernel with one in place of each that walks class c for each of the classes `own`, which have a
    single position each."""
    found: list[Node] = []
    copies: list[dict[Value, Value]] = [{} for _ in own]
    for node in nodes:
        if c not in node.classes:
            found.append(node)
        elif c in node.reduced:
            chain = _sum(node, c, own, copies)
            node.op.results[0].replace_all_uses_with(chain[-1].op.results[0])
            found += chain
        else:
            for single, mapping in zip(own, copies, strict=True):
                with ir.InsertionPoint(node.op), node.op.location:
                    found.append(_placed(node, clone_op(node.op, mapping), c, single))
    return found


def _placed(node: Node, op: ir.Operation, c: int, single: int) -> Node:
    """A node that walks class `single` where `node` walks c."""

    def placed(classes: Sequence[int]) -> list[int]:
        return [single if own == c else own for own in classes]

    return Node(op, placed(node.classes), [], [placed(access) for access in node.accesses])


def _sum(node: Node, c: int, own: Sequence[int], copies: Sequence[dict[Value, Value]]) -> list[Node]:
    """Nodes that each add an element to the sum of those before it; the first to what the sum starts from."""
    op, found = node.op, list[Node]()
    total, result = op.operands[len(op.operands) - 1], op.results[0].type
    for single, mapping in zip(own, copies, strict=True):
        with ir.InsertionPoint(op), op.location:
            is_last = single == own[-1]
            written = op.operands[len(op.operands) - 1]
            into = written if is_last else tensor.EmptyOp(result.shape, result.element_type).result
            step = _step(op, mapping, total, into)
        placed = _placed(node, step, c, single)
        placed.accesses.append(placed.accesses[-1])
        found.append(placed)
        total = step.results[0]
    return found


def _step(op: ir.Operation, mapping: dict[Value, Value], total: Value, into: Value) -> ir.Operation:
    """A generic that reads the `total` that `op`, which reduces, has accumulated, and writes what `op` makes of it."""
    *taken, _ = op.operands
    operands = [*(mapping.get(x, x) for x in taken), total, into]
    *maps, last = op.attributes[INDEXING_MAPS.name]
    attributes = dict(op.attributes.items()) | {
        INDEXING_MAPS.name: ir.ArrayAttr.get([*maps, last, last]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - 1, 1]),
    }
    kinds = [result.type for result in op.results]
    step = ir.Operation.create(op.name, results=kinds, operands=operands, attributes=attributes, regions=1)
    (block,) = op.regions[0].blocks
    arguments = [argument.type for argument in block.arguments]
    fresh = step.regions[0].blocks.append(*arguments, arguments[-1])
    inner = dict(zip(block.arguments, fresh.arguments, strict=False))
    with ir.InsertionPoint(fresh):
        for view in block.operations:
            clone_op(view.operation, inner)
    return step
