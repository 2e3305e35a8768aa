"""Replaces attention under a mask that is a tensor by the ops that define it, on a GPU, where no gradient is wanted.

    %r = attention(%q, %k, %v, %mask, 0.125)                 %mask: bool, or added to the scores
 →  %s = mul(matmul(%q, %k^T), 0.125) + %mask              where(%mask, …, -inf) if it is bool
    %first, %last = amin, amax(the places along a row of %mask that it shows)
    %t = implied_where(%first <= place <= %last, %s, -inf)
    %r = matmul(softmax(%t), %v)

The compiler makes one kernel of it, as of flex_attention: it passes over keys that no query of a block sees, which its
programs read off %first and %last. They need not compare these with each place: the mask hides all others. A mask that
can hide nothing, such as a table of positions' biases, is only added. cuDNN takes twice its time with a mask, whatever
the mask hides. Its gradients take less time than ours, which would load the mask transposed, so a training step keeps
its kernels (decision 57).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.attention.hidden_keys import condition_of, may_hide
from cuesta.frontend.attention.spelling import product, spell_out
from cuesta.frontend.decompositions.table import decompositions_of
from cuesta.frontend.fx_nodes import filling_of, packet_of
from cuesta.options import Options

aten = torch.ops.aten

#: The least queries and keys of a call, and the sizes of a head, that a kernel of ours computes faster than cuDNN.
_FEWEST, _HEADS = 64, range(16, 129)
#: Queries and keys of a window that is one block of ours. For windows of 49 pixels cuDNN takes three times as long.
_WINDOW = range(16, 64)
_TYPES = (torch.bfloat16, torch.float16)
#: Where a mask shows keys, if that is known, and what it adds to the scores, if anything.
Mask = tuple[Tensor | None, Tensor | None]
#: The position of the mask among the arguments of a call.
_MASK = 3


def spell_out_masks(gm: GraphModule, options: Options) -> None:
    """Replaces attention under masks in a graph, in place."""
    if options.attention == "library":
        return
    is_interpreted = options.target is not None and options.target.kind == "tt"
    found = [node for node in gm.graph.nodes if packet_of(node) is torch.ops.cuesta.attention]
    spellings: dict[Node, Callable[..., Any]] = {}
    for call in [node for node in found if _is_ours(node, is_interpreted)]:
        keys = call.args[1].meta["val"].size(2)
        shows, added = _parts(call.args[_MASK], keys)
        spellings[call] = functools.partial(_forward, hides=added is None or may_hide(added, keys))
        call.update_arg(_MASK, (shows, added))
    if spellings:
        spell_out(gm, spellings, decompositions_of(options))


def _is_ours(call: Node, is_interpreted: bool) -> bool:
    """Whether a kernel of ours computes a call: its mask is a tensor, its sizes are known, only its output is read, and
    it is for a GPU of NVIDIA's, whose kernels the other routes are, or for the interpreter of such kernels."""
    *factors, mask, causal, _, route = call.args
    if mask is None or causal or (route == "cpu" and not is_interpreted) or any(user.args[1] for user in call.users):
        return False
    q, k, v = (x.meta["val"] for x in factors if isinstance(x, Node))
    if not all(isinstance(n, int) for x in (q, k, v) for n in x.shape):
        return False
    queries, keys = q.size(2), k.size(2)
    enough = min(queries, keys) >= _FEWEST or (queries in _WINDOW and keys in _WINDOW)
    return enough and q.size(1) == k.size(1) and q.dtype in _TYPES and q.size(3) in _HEADS and v.size(3) in _HEADS


def _parts(mask: Any, keys: int) -> tuple[Node | None, Node | None]:
    """Where a mask over so many keys shows them, if that is known, and what it adds to the scores. Only one of the two
    if it adds 0 where it shows a key, and hides it by -inf elsewhere."""
    if mask.meta["val"].dtype == torch.bool:
        return mask, None
    condition = condition_of(mask, keys)
    plain = packet_of(mask) is aten.where and [filling_of(x) for x in mask.args[1:]] == [0, -math.inf]
    is_whole = condition is not None and condition.meta["val"].shape == mask.meta["val"].shape
    return condition, None if plain and is_whole else mask


def _seen(q: Tensor, k: Tensor, mask: Mask, scale: float, hides: bool) -> Tensor:
    """The scores [B, H, L, S], -inf where the mask hides them."""
    shows, added = mask
    scores = product(q, k.transpose(-2, -1)) * scale
    if added is not None:
        added = _unexpanded(added)
        scores = scores + added.to(scores.dtype)
        shows = added > torch.finfo(added.dtype).min / 2 if shows is None else shows
    elif shows is not None:
        scores = torch.where(_unexpanded(shows), scores, -math.inf)
    if not hides or shows is None:
        return scores
    shows = _unexpanded(shows)
    between = _between_first_and_last(shows.expand(*shows.shape[:-1], k.size(2)), q.size(1))
    found: Tensor = torch.ops.cuesta.implied_where(between, scores, -math.inf)
    return found


def _unexpanded(mask: Tensor) -> Tensor:
    """A mask without the copies of its expanded dims, which would be read again and again."""
    for dim, stride in enumerate(mask.stride()):
        if stride == 0:
            mask = mask.narrow(dim, 0, 1)
    return mask


def _between_first_and_last(shows: Tensor, heads: int) -> Tensor:
    """The places between the first and the last one that a row shows, for each head. All of a row that shows none:
    where the lowest number hides them, each weighs the same."""
    count = shows.size(-1)
    places = torch.arange(count, device=shows.device, dtype=torch.int32)
    first = torch.where(shows, places, count).amin(-1, keepdim=True)
    last = torch.where(shows, places, -1).amax(-1, keepdim=True)
    first, last = torch.where(last < 0, 0, first), torch.where(last < 0, count - 1, last)
    # Of all heads, though they are the same: what is compared for each head is compared in the kernel of the scores,
    # which so finds where its keys begin and end.
    first, last = (x.expand(-1, heads, -1, -1) for x in (first, last))
    return (places >= first) & (places <= last)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, _causal: bool, scale: float, _route: str, *, hides: bool
) -> tuple[Tensor]:
    """The output alone. `hides`: whether the mask may hide keys."""
    return (aten._safe_softmax(_seen(q, k, mask, scale, hides), -1).to(q.dtype) @ v,)
