"""Gives each reader of what is computed from positions alone ops of its own, so that it is computed where it is read.

    %0 = cuesta.iota() : 2xi64                          %0 = cuesta.iota()          %4 = cuesta.iota()
    %1 = cuesta.lt(%0, 1)                               %1 = cuesta.lt(%0, 1)       %5 = cuesta.lt(%4, 1)
    %2 = cuesta.where(%1, %a, %b)                →      %2 = cuesta.where(%1, %a, %b)
    %3 = cuesta.where(%1, %c, %d)                       %3 = cuesta.where(%5, %c, %d)

Such are the masks by which parts are interleaved. A kernel has its loop indices anyway. What several kernels read
would be written by one more, and a block that is read says nothing of its elements: by a mask that a kernel makes
itself, `sum-halves` sees that two blocks are taken by turns. Calls read what they need from memory: they share it.

Each reader also computes itself what depends on a table of integers alone that is repeated along other dims, such as
distances for all heads of an attention. The table stays in a cache; what is computed from it would be written for each
head.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.indexing import Gather, Index
from cuesta.dialects.cuesta.shape import Constant, Expand, Iota, Reshape
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.types import spelling_of
from cuesta.passes.graph.reshapes.hoist_reshapes import CHEAP, POINTWISE
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass

_COMPUTED = CHEAP | names_of(Reshape)
_READS = names_of(Gather, Index)


@register_pass("repeat-positions")
class RepeatPositions(Pass):
    """Repeats what is computed from positions and repeated tables alone, once for each reader."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                counted = _counted(function.regions[0].blocks[0])
                # From the last to the first: an op is repeated before those that it reads.
                for op in reversed(counted):
                    _repeat(op)


def _counted(block: ir.Block) -> list[ir.Operation]:
    """The ops of a block that compute from positions and repeated tables alone and whose result is not a constant, in
    order."""
    found: list[ir.Operation] = []
    known: set[ir.Value] = set()
    for op in (view.operation for view in block.operations):
        if _repeats_table(op):
            known.update(op.results)
        moving = [x for x in op.operands if maker(x, Constant) is None]
        if Iota.matches(op) or (op.name in _COMPUTED and moving and known.issuperset(moving)):
            found.append(op)
            known.update(op.results)
    return found


def _repeats_table(op: ir.Operation) -> bool:
    """Whether an op repeats integers that the graph gets, or a view of them."""
    if not Expand.matches(op) or spelling_of(op.results[0]) not in ("i32", "i64"):
        return False
    (table,) = op.operands
    while not isinstance(table.owner, ir.Block) and table.owner.name in VIEWS:
        (table,) = table.owner.operands
    return isinstance(table.owner, ir.Block)


def _computes(op: ir.Operation) -> bool:
    """Whether an op may become part of a kernel with what it reads."""
    return op.name in POINTWISE or op.name in VIEWS or op.name in _READS or reduction.row_of(op) is not None


def _repeat(op: ir.Operation) -> None:
    """Gives each reader that computes with an op's result, but one, a copy of the op, just before the reader."""
    (result,) = op.results
    readers = [reader for reader in dict.fromkeys(users(result)) if _computes(reader)]
    for reader in readers[1:]:
        with ir.InsertionPoint(reader), op.location:
            own = repeat_op(op, list(op.operands), result.type).results[0]
        for i, operand in enumerate(reader.operands):
            if operand == result:
                reader.operands[i] = own
