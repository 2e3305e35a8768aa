"""The results of recordings: the memory that they lie in, who holds it, and what becomes of it.

A replay writes its results to the same memory as the replay before. A call hands out new tensors over it. Of results
that autograd saves and nobody else gets, which are most of a training step's, the same tensors are handed out in each
call: to make a tensor takes longer than to see that nobody holds it any more.

A backward graph's recording takes over the memory of such results, once it has read them: what it needs in between, and
its own results, may lie there. So a training step takes no more memory than a call without recordings. The results are
lent then: the recording that writes them holds tensors that do not keep the memory, which is the pool's.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from cuesta.runtime.arguments import aligned_copy
from cuesta.runtime.uniqueness_check import is_alone
from cuesta.torch_private.tensors import reinterpret_tensor, storage_key, storage_uses, uses, without_memory

Tensor = torch.Tensor
#: Addresses of the first byte and of the byte behind the last one.
Range = tuple[int, int]

_view: Callable[..., Tensor] = reinterpret_tensor
_uses: Callable[[int], int] = storage_uses


def _over(owner: Tensor) -> Tensor:
    """A new tensor over the same memory."""
    return _view(owner, tuple(owner.shape), owner.stride(), 0)


def holders(tensors: Sequence[Any]) -> tuple[list[int], list[int]]:
    """How many hold each tensor's Python object, the list among them, and its C++ object."""
    return list(map(sys.getrefcount, tensors)), list(map(uses, tensors))


#: The counts of a tensor that only an attribute holds. Measured, because they differ between versions.
_HELD_ONCE = SimpleNamespace(lasting=torch.empty(1))
_FREE = holders([_HELD_ONCE.lasting])
#: The counts of one that the list of a call's arguments holds as well.
_ARGUMENTS = [_HELD_ONCE.lasting]
TAKEN = holders([_ARGUMENTS[0]])
del _ARGUMENTS


@dataclass(eq=False)
class Pool:
    """Memory that recordings share, as torch's allocator knows it by `handle`."""

    handle: Any
    graphs: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    lent: dict[Block, Results] = field(default_factory=dict)  # those in memory that the allocator takes to be free
    is_closed: bool = False  # whether torch refuses to record into it

    def is_open(self) -> bool:
        """Whether a recording may be made in it: nobody holds results that the allocator does not know of."""
        self.lent = {block: of for block, of in self.lent.items() if not of.is_gone or block.is_held()}
        return not self.is_closed and not any(block.is_held() for block in self.lent)


@dataclass(eq=False)
class Block:
    """A storage that a recording writes results into. `owners` keep its memory alive, until it is lent."""

    key: int
    owners: list[Tensor]
    own_uses: int  # its use count while nobody but the recording holds it
    places: list[int]  # the numbers of the results in it
    handed: dict[int, weakref.ref[Tensor]]  # the last replay's results that were made for it; none before the first
    lasting: Tensor | None = None  # the tensor that each call hands out, where only autograd gets it
    moved: weakref.ref[Tensor] | None = None  # the tensor that had to be moved since the last replay
    pool: Pool | None = None
    is_lent: bool = False  # whether the pool may use the memory
    graphs: list[Any] = field(default_factory=list)  # keep lent memory mapped that is held when the recording goes

    @staticmethod
    def all_of(owners: Sequence[Tensor], saved: Collection[int] = (), pool: Pool | None = None) -> list[Block]:
        """The blocks of a recording's results in a pool, each storage once. Nobody else may hold the tensors. Only
        autograd gets the results `saved`."""
        places: dict[int, list[int]] = {}
        for i, owner in enumerate(owners):
            places.setdefault(storage_key(owner), []).append(i)
        handed: dict[int, weakref.ref[Tensor]] = {}
        blocks = []
        for key, own in places.items():
            lasting = _over(owners[own[0]]) if len(own) == 1 and own[0] in saved else None
            blocks.append(Block(key, [owners[i] for i in own], _uses(key), own, handed, lasting, pool=pool))
        return blocks

    def is_held(self) -> bool:
        """Whether anybody but the recording holds the memory."""
        if _uses(self.key) != self.own_uses:
            return True
        return self.lasting is not None and holders([self.lasting]) != _FREE

    def holder(self) -> Tensor | None:
        """The one tensor that holds the memory. None if there are others: views, or tensors that autograd saved."""
        if self.lasting is not None:
            return self.lasting if _uses(self.key) == self.own_uses else None
        handed = [self.handed[i]() for i in self.places if i in self.handed]
        alive = [tensor for tensor in handed if tensor is not None]
        return alive[0] if len(alive) == 1 and _uses(self.key) == self.own_uses + 1 else None

    def may_lend(self) -> bool:
        """Whether the memory may be left to the pool, which it was not before."""
        return self.lasting is not None and not self.is_lent

    def is_alone_in(self, tensors: list[Tensor], i: int) -> bool:
        """Whether only this list and the recording hold `tensors[i]`, which lies here, and the memory."""
        return is_alone(tensors, i, holders=int(tensors[i] is self.lasting), others=len(self.owners))

    def move(self) -> None:
        """Moves the values to other memory, if somebody holds them and `can_move` says so."""
        if not self.is_held() or (tensor := self.holder()) is None:
            return
        with torch.no_grad():
            tensor.data = aligned_copy(tensor)
        self.moved = weakref.ref(tensor)
        if tensor is self.lasting:
            self.lasting = _over(self.owners[0])

    def lend(self) -> Tensor:
        """Leaves the memory to `lasting` as it is now, and when that goes to the pool. Returns what takes its place."""
        self.is_lent = True
        self.owners = [without_memory(owner) for owner in self.owners]
        self.key, self.lasting = storage_key(self.owners[0]), _over(self.owners[0])
        self.own_uses = _uses(self.key)
        return self.lasting

    def lies_in(self, ranges: Iterable[Range]) -> bool:
        """Whether the memory begins in one of the ranges."""
        begin = self.owners[0].untyped_storage().data_ptr()
        return any(start <= begin < end for start, end in ranges)


def can_move(blocks: Iterable[Block]) -> bool:
    """Whether one tensor at most holds each block, so that its values can be moved."""
    return all(not block.is_held() or block.holder() is not None for block in blocks)


class Results:
    """The blocks of a recording. Once nobody was seen to hold any, nobody does until the next replay: of the recordings
    that overwrite some of them, only the first after a replay looks at them all."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.is_gone = False  # whether the recording is
        self._may_be_held = False
        self._count()

    def _count(self) -> None:
        self._keys, self._own_uses = [b.key for b in self.blocks], [b.own_uses for b in self.blocks]
        self.lasting = [b for b in self.blocks if b.lasting is not None]
        self._free = tuple(counts * len(self.lasting) for counts in _FREE)

    def note_replay(self) -> None:
        """Notes that a call hands them out."""
        self._may_be_held = True

    def are_free(self) -> bool:
        """Whether nobody but the recording holds any."""
        if self._may_be_held and list(map(_uses, self._keys)) == self._own_uses:
            # The list stands where `_FREE` has one.
            self._may_be_held = holders([block.lasting for block in self.lasting]) != self._free
        return not self._may_be_held

    def lend(self, block: Block) -> Tensor:
        """Lends a block, and returns the tensor that takes the place of the one that is handed out."""
        assert block.pool is not None
        block.pool.lent[block] = self
        tensor = block.lend()
        self._count()
        self._may_be_held = True
        return tensor

    def leave(self) -> None:
        """Notes that the recording is gone."""
        self.is_gone = True
        for block in self.blocks:
            if block.pool is not None and block.is_lent and block.is_held():
                block.graphs = [*block.pool.graphs]
