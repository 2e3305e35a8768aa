"""The results of recordings: the memory that they lie in, who holds it, and what becomes of it.

A replay writes its results to the same memory as the replay before. A call hands out new tensors over it. Of results
that autograd saves and nobody else gets, which are most of a training step's, the same tensors are handed out in each
call: to make a tensor takes longer than to see that nobody holds it any more.

A backward graph's recording takes over the memory of such results, once it has read them: what it needs in between, and
its own results, may lie there. Results that go from one graph to the next, and that nobody else holds while that one is
recorded, are left to the recordings that come after it. So a training step takes no more memory than a call without
recordings. The results are lent then: the recording that writes them holds tensors that do not keep the memory, which
is the pool's.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
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


_HELD = [torch.empty(1)]
#: The counts of a tensor that only a list holds. Measured, because they differ between versions.
_FREE = holders(_HELD)
#: The counts of a tensor that two lists hold.
_FREE_IN_TWO = holders([_HELD[0]])
_ARGUMENTS = [_HELD[0]]
#: The counts of a tensor that three lists hold, one of which is that of a call's arguments.
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


@dataclass(eq=False, slots=True)
class Block:
    """A storage that a recording writes results into. `owners` keep its memory alive, until it is lent."""

    key: int
    owners: list[Tensor]
    own_uses: int  # its use count while nobody but the recording holds it
    places: list[int]  # the numbers of the results in it
    handed: dict[int, weakref.ref[Tensor]]  # the last replay's results that were made for it; none before the first
    kept: list[Tensor]  # the tensors that each call hands out, of all blocks that only autograd gets
    number: int | None = None  # where in `kept` this block's is
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
        kept: list[Tensor] = []
        blocks = []
        for key, own in places.items():
            number = len(kept) if len(own) == 1 and own[0] in saved else None
            if number is not None:
                kept.append(_over(owners[own[0]]))
            blocks.append(Block(key, [owners[i] for i in own], _uses(key), own, handed, kept, number, pool=pool))
        return blocks

    @property
    def lasting(self) -> Tensor | None:
        """The tensor that each call hands out. None if each call makes new ones."""
        return None if self.number is None else self.kept[self.number]

    def is_held(self) -> bool:
        """Whether anybody but the recording holds the memory."""
        if _uses(self.key) != self.own_uses:
            return True
        return self.number is not None and holders([self.kept[self.number]]) != _FREE_IN_TWO

    def holder(self) -> Tensor | None:
        """The one tensor that holds the memory. None if there are others: views, or tensors that autograd saved."""
        if self.number is not None:
            return self.kept[self.number] if _uses(self.key) == self.own_uses else None
        handed = [self.handed[i]() for i in self.places if i in self.handed]
        alive = [tensor for tensor in handed if tensor is not None]
        return alive[0] if len(alive) == 1 and _uses(self.key) == self.own_uses + 1 else None

    def may_lend(self, dtype: torch.dtype | None = None) -> bool:
        """Whether the memory, which one tensor of this dtype was made over, may be left to the pool. It was not
        before."""
        return not self.is_lent and len(self.owners) == 1 and dtype in (None, self.owners[0].dtype)

    def is_alone_in(self, tensors: list[Tensor], i: int) -> bool:
        """Whether only this list and the recording hold `tensors[i]`, which lies here, and the memory."""
        return is_alone(tensors, i, holders=int(tensors[i] is self.lasting), others=len(self.owners))

    def move(self) -> Tensor | None:
        """Moves the values to other memory, if somebody holds them and `can_move` says so. Returns who did."""
        if not self.is_held() or (tensor := self.holder()) is None:
            return None
        with torch.no_grad():
            tensor.data = aligned_copy(tensor)
        if self.number is not None:
            self.kept[self.number] = _over(self.owners[0])
        return tensor

    def lend(self, tensor: Tensor) -> Tensor:
        """Leaves the memory to `tensor`, which lies there, and when that goes to the pool. Returns what takes its
        place: a tensor that does not keep the memory."""
        self.leave_dead()
        (owner,) = self.owners
        offset = tensor.storage_offset() - owner.storage_offset()
        return self.lasting if self.lasting is not None else _view(owner, tuple(tensor.shape), tensor.stride(), offset)

    def leave_dead(self) -> None:
        """Leaves the memory to the tensors that lie there, if any, and then to the pool."""
        self.is_lent = True
        self.owners = [owner] = [without_memory(owner) for owner in self.owners]
        self.key = storage_key(owner)
        if self.number is not None:
            self.kept[self.number] = _over(owner)
        self.own_uses = _uses(self.key)

    def lies_in(self, ranges: Iterable[Range]) -> bool:
        """Whether the memory begins in one of the ranges."""
        begin = self.owners[0].untyped_storage().data_ptr()
        return any(start <= begin < end for start, end in ranges)


def can_move(blocks: Iterable[Block]) -> bool:
    """Whether one tensor at most holds each block, so that its values can be moved."""
    return all(not block.is_held() or block.holder() is not None for block in blocks)


class Results:
    """Blocks of a recording that are free together: those of what autograd alone gets, or the others. Once nobody was
    seen to hold any, nobody does until the next replay: of the recordings that overwrite some of them, only the first
    after a replay looks at them all."""

    def __init__(self, blocks: list[Block], held: set[Results]) -> None:
        """`held` are the results of all recordings of a device that somebody may hold."""
        self.blocks, self.held = blocks, held
        self.kept = blocks[0].kept if blocks and blocks[0].number is not None else []
        self.is_gone = False  # whether the recording is
        self.moved: list[weakref.ref[Tensor]] = []  # the tensors that had to be moved since the last replay
        self.was_in_the_way = False  # whether one of them was moved for another recording
        self._free = tuple(counts * len(self.kept) for counts in _FREE)
        self._count()

    def _count(self) -> None:
        self._keys, self._own_uses = [b.key for b in self.blocks], [b.own_uses for b in self.blocks]

    def are_free(self) -> bool:
        """Whether nobody but the recording holds any."""
        if self in self.held and list(map(_uses, self._keys)) == self._own_uses and holders(self.kept) == self._free:
            self.held.discard(self)
        return self not in self.held

    def hand_out(self) -> list[weakref.ref[Tensor]]:
        """Notes that a call hands them out. Returns those of the last call's that had to be moved and are alive."""
        if self.blocks:
            self.held.add(self)
        moved, self.moved, self.was_in_the_way = self.moved, [], False
        return [ref for ref in moved if ref() is not None]

    def move(self, blocks: Iterable[Block]) -> bool:
        """Moves those of the blocks that somebody holds, where `can_move` says so. Returns whether there were any."""
        moved = [tensor for block in blocks if (tensor := block.move()) is not None]
        self.moved += map(weakref.ref, moved)
        return bool(moved)

    def lend(self, block: Block, tensor: Tensor) -> Tensor:
        """Lends a block, which a tensor lies in, and returns what takes the tensor's place."""
        stand_in = block.lend(tensor)
        self._note_lent(block)
        return stand_in

    def leave_dead(self, block: Block) -> None:
        """Leaves a block that nobody holds to its pool."""
        block.leave_dead()
        self._note_lent(block)

    def _note_lent(self, block: Block) -> None:
        assert block.pool is not None
        block.pool.lent[block] = self
        self._count()
        self.held.add(self)

    def leave(self) -> None:
        """Notes that the recording is gone."""
        self.is_gone = True
        for block in self.blocks:
            if block.pool is not None and block.is_lent and block.is_held():
                block.graphs = [*block.pool.graphs]
