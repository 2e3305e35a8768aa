"""Decides which attention ops become kernels of ours on a CPU, and how these are tiled.

%o, %lse = cuesta.attention(%q, %k, %v)   →   %o, %lse = cuesta.attention(%q, %k, %v) {tile = "64x128 by 4"}

Attention of few queries, as when a text is made token by token, has kernels of another form, in any float of 16 or 32
bits: they read the keys and values once, at the memory's speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuesta._mlir import ir
from cuesta.dialects.cuesta.attention import AnyAttention, Attention, AttentionBackward
from cuesta.dialects.kernel_attention import LANES, ROWS, AttentionTile, FewQueries
from cuesta.dialects.top_module import measured_products
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.libraries.widened import widened
from cuesta.policy.product_kinds import ATTENTION, ATTENTION_BACKWARD, KERNEL
from cuesta.policy.slow_floats import has_vectors, has_wide_vectors
from cuesta.runtime.machine import instructions
from cuesta.sizes import Size, hint
from cuesta.targets import Target

#: Position of q among the operands of each op.
_FIRST = {Attention.OPERATION_NAME: 0, AttentionBackward.OPERATION_NAME: 1}
#: What each op is called where it was measured.
_KINDS = {Attention.OPERATION_NAME: ATTENTION, AttentionBackward.OPERATION_NAME: ATTENTION_BACKWARD}

#: Element types of a kernel, and of what may be widened for one.
_OWN, _WIDENED = frozenset({"f32"}), frozenset({"f32", "bf16"})
#: Element types of attention of few queries.
_FLOATS = ("f32", "bf16", "f16")
#: With fewer queries most lanes would be empty: the library took 0.65 of a kernel's time for one, 1.2 for four.
_FEWEST_QUERIES = 8
#: Few queries: fewer than the above, and at most so many in the heads that share a head of k and v.
_MOST_ROWS = 64
#: The most elements of a head that kernels of few queries take, as their loops are written out along a head.
_MOST_DEPTH = 256
#: The fewest elements of keys with which kernels of few queries are faster wherever vectors are wide.
_MANY = 1 << 14
#: Keys of a block of few queries, for heads of up to so many elements, and for others.
_BLOCK, _SHORT_HEAD, _SHORT_BLOCK = 128, 64, 64
#: The most vectors of queries in a panel.
_MOST_VECTORS = 4
#: Fixed cost of a panel, in query vectors.
_PANEL = 0.4
#: The most keys of a block: its scores for a panel stay in L1.
_MOST_KEYS = 64


def mark_attention(module: ir.Module, option: str, target: Target) -> None:
    """Marks the attention ops of a module that are to become kernels, and those that cannot with the reason. `option`
    is the option `attention`."""
    if target.device_type != "cpu" or target.gpu or option == "library":
        return
    measured = measured_products(module)
    for function in functions(module):
        for view in list(function.regions[0].blocks[0].operations):
            op = view.operation
            if op.name not in _FIRST or AnyAttention.tile.is_on(op):
                continue
            if are_few_queries(op):
                if option == "kernel" or (has_vectors() and _has_many_keys(op)):
                    AnyAttention.tile.put(op, str(_block_of(op)))
                continue
            widens = option == "kernel" or _is_slow_in_the_library(op)
            if widens and refusal(op, _WIDENED) is None:
                op = widened(op, {"bf16"})
            if (refused := refusal(op)) is not None:
                AnyAttention.reason.put(op, f"attention of {refused} runs in the library")
            elif widens or _is_faster(op, measured):
                AnyAttention.tile.put(op, str(tile_of(op)))


def refusal(op: ir.Operation, floats: frozenset[str] = _OWN) -> str | None:
    """The property of an op that no kernel of these element types supports; None where there is a kernel."""
    masked = len(op.operands) in (4, 7)
    if not {spelling_of(x) for x in op.operands} - ({"i1"} if masked else set()) <= floats:
        return "elements other than f32"
    q, k, v = (shape_of(x) for x in list(op.operands)[_FIRST[op.name] :][:3])
    if any(isinstance(n, Size) for shape in (q, k, v) for n in (shape[1], shape[3])):
        return "heads whose number or size depends on the call"
    return "no elements" if any(0 in shape_of(x) for x in op.operands) else None


def _is_slow_in_the_library(op: ir.Operation) -> bool:
    """Whether an op is attention of bf16 whose blocks ATen's kernel copies as f32: on a machine with AVX-512, but no
    instructions for products of bf16 matrices. There a kernel in f32 takes 0.22 to 0.42 of ATen's time for five shapes
    of 64 to 2048 queries (EPYC of Zen 5, one thread)."""
    q = op.operands[_FIRST[op.name]]
    enough = hint(shape_of(q)[2]) >= _FEWEST_QUERIES
    return spelling_of(q) == "bf16" and enough and has_wide_vectors() and "amx_bf16" not in instructions()


def are_few_queries(op: ir.Operation) -> bool:
    """Whether an op is attention of few queries, for which there is a kernel. (A causal mask of so few hides nearly all
    keys.)"""
    if op.name != Attention.OPERATION_NAME or Attention.causal.of(op):
        return False
    q, k, v = list(op.operands)[:3]
    spellings = {spelling_of(x) for x in (q, k, v)}
    known = [n for x in (q, k, v) for n in (shape_of(x)[1], shape_of(x)[3])]
    queries = shape_of(q)[2]
    if len(spellings) != 1 or not spellings <= set(_FLOATS) or any(isinstance(n, Size) for n in (*known, queries)):
        return False
    if len(op.operands) == 4 and spelling_of(op.operands[3]) not in ("i1", *_FLOATS):
        return False
    if any(0 in shape_of(x) for x in op.operands):
        return False
    heads, depth, few, _, _, width = (hint(n) for n in known)
    rows = heads // few * hint(queries)
    return hint(queries) < _FEWEST_QUERIES and rows <= _MOST_ROWS and max(depth, width) <= _MOST_DEPTH


def _has_many_keys(op: ir.Operation) -> bool:
    """Whether the keys of a batch fill memory enough for the call of a library to be worth avoiding."""
    return math.prod(hint(n) for n in shape_of(op.operands[1])) >= _MANY


def _block_of(op: ir.Operation) -> FewQueries:
    depth = hint(shape_of(op.operands[0])[3])
    return FewQueries(_BLOCK if depth <= _SHORT_HEAD else _SHORT_BLOCK)


def tile_of(op: ir.Operation) -> AttentionTile:
    """The tile of a kernel for an op."""
    q, k = list(op.operands)[_FIRST[op.name] :][:2]
    return tile_for(hint(shape_of(q)[2]), hint(shape_of(k)[2]))


def tile_for(queries: int, keys: int) -> AttentionTile:
    """The tile for so many queries and keys: panels with few empty lanes, and blocks of about equally many keys."""

    def cost(vectors: int) -> float:
        return math.ceil(queries / (vectors * LANES)) * (vectors + _PANEL)

    vectors = min(range(_MOST_VECTORS, 0, -1), key=cost)
    rows = ROWS if vectors == _MOST_VECTORS else 2 * ROWS  # 16 sums in registers at least, or 8
    block = math.ceil(keys / math.ceil(keys / _MOST_KEYS))
    return AttentionTile(vectors * LANES, math.ceil(block / rows) * rows, rows)


def _is_faster(op: ir.Operation, measured: Mapping[str, str]) -> bool:
    """Whether kernels were measured to be faster on this machine, and the op has enough queries to fill lanes."""
    queries = shape_of(op.operands[_FIRST[op.name]])[2]
    return hint(queries) >= _FEWEST_QUERIES and measured.get(_KINDS[op.name]) == KERNEL
