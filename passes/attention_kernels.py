"""Which attention is a kernel of ours on a CPU, and how it is cut.

%o, %lse = cuesta.attention(%q, %k, %v)   →   %o, %lse = cuesta.attention(%q, %k, %v) {tile = "64x128 by 4"}
"""

from __future__ import annotations

import math

from cuesta._mlir import ir
from cuesta.dialects.kernel_attention import TILE, AttentionTile
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.graph_rewrite import functions
from cuesta.targets import Target

#: Position of q among the operands of each op.
_FIRST = {"cuesta.attention": 0, "cuesta.attention_backward": 1}

#: Lanes of a vector, and vectors of queries that a panel has at most.
_LANES, _MOST_VECTORS = 16, 4
#: Work of a panel beside what its queries take, in vectors of them.
_PANEL = 0.4
#: Keys of a block, at most: its scores for a panel stay in L1.
_MOST_KEYS = 128
#: Sums in registers: rows for so many vectors.
_ROWS = {1: 8, 2: 8, 3: 8, 4: 4}


def mark_attention(module: ir.Module, option: str, target: Target) -> None:
    """Marks the attention of a module that is to become kernels; `option` is that named `attention`."""
    if target.device_type != "cpu" or target.gpu or option == "library":
        return
    for function in functions(module):
        for view in function.regions[0].blocks[0].operations:
            op = view.operation
            if op.name in _FIRST and TILE not in op.attributes:
                tile = tile_of(op)
                if tile is not None and (option == "kernel" or is_faster(op)):
                    op.attributes[TILE] = ir.StringAttr.get(str(tile))


def tile_of(op: ir.Operation) -> AttentionTile | None:
    """How a kernel cuts an op; None where none takes it: sizes that depend on the call, nothing to compute, and
    elements other than f32."""
    q, k, v = (shape_of(x) for x in list(op.operands)[_FIRST[op.name] : _FIRST[op.name] + 3])
    spellings = {spelling_of(x) for x in op.operands} - ({"i1"} if _is_masked(op) else set())
    known = [n for n in (*q, *k, *v) if isinstance(n, int)]
    if len(known) < 12 or 0 in known or spellings != {"f32"}:
        return None
    return tile_for(known[2], known[6])


def tile_for(queries: int, keys: int) -> AttentionTile:
    """The tile of so many queries and keys: panels that leave few lanes empty, and blocks of keys that are alike."""

    def cost(vectors: int) -> float:
        return math.ceil(queries / (vectors * _LANES)) * (vectors + _PANEL)

    vectors = min(range(_MOST_VECTORS, 0, -1), key=cost)
    rows = _ROWS[vectors]
    block = math.ceil(keys / math.ceil(keys / _MOST_KEYS))
    return AttentionTile(vectors * _LANES, math.ceil(block / rows) * rows, rows)


def _is_masked(op: ir.Operation) -> bool:
    return len(op.operands) in (4, 7)


def is_faster(op: ir.Operation) -> bool:
    """Whether a kernel was measured to be faster."""
    return False
