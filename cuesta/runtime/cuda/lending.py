"""Which results of earlier recordings a new one may write over: their memory is left to the pool (results.py).

Three kinds are: results that a backward graph frees once it has read them, results that pass from one recording to the
next, and results that the caller has dropped by then, such as attention weights that a layer returns and nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta.runtime.cuda.recorder import Recorder
from cuesta.runtime.cuda.results import Block, Pool, Results
from cuesta.torch_private.tensors import storage_key

Tensor = torch.Tensor


def blocks_of(tensors: list[Tensor], numbers: Sequence[int], recorder: Recorder) -> dict[int, Block]:
    """The blocks of those arguments that may be lent, because nobody else holds them."""
    keys = {i: storage_key(tensors[i]) for i in numbers}
    found = {i: recorder.blocks[key][0] for i, key in keys.items() if key in recorder.blocks}
    return {i: b for i, b in found.items() if b.may_lend(tensors[i].dtype) and b.is_alone_in(tensors, i)}


def lend(blocks: dict[int, Block], tensors: list[Tensor], recorder: Recorder) -> None:
    """Lends the blocks of arguments, and puts the tensors that take their place into the call's list."""
    for i, block in blocks.items():
        _, results = recorder.blocks.pop(block.key)
        tensors[i] = results.lend(block, tensors[i])
        recorder.blocks[block.key] = block, results
    if blocks:
        _count_anew(recorder)


def lend_dead(pool: Pool, recorder: Recorder) -> None:
    """Lends results that the caller has dropped, if autograd still holds what their recording saved.

    That recording's next replay then comes after its backward graph. What is recorded now lives no longer, unless it is
    a gradient: a forward graph's results are read by a backward graph that comes before that one.
    """
    pending = [recording.given for recording in recorder.recordings if not recording.saved.are_free()]
    dead = [(b, of) for of in pending for b in of.blocks if b.pool is pool and b.may_lend() and not b.is_held()]
    for block, results in dead:
        del recorder.blocks[block.key]
        results.leave_dead(block)
        recorder.blocks[block.key] = block, results
    if dead:
        _count_anew(recorder)


def _count_anew(recorder: Recorder) -> None:
    for recording in recorder.recordings:
        recording.count()


def consumed(taken: dict[int, Block], recorder: Recorder) -> list[Results]:
    """Those results all of whose blocks are taken over: nobody holds them after a replay."""
    blocks = {*taken.values()}
    results = {recorder.blocks[block.key][1] for block in blocks}
    return [of for of in results if blocks.issuperset(of.blocks)]
