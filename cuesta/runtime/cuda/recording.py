"""One recording of a program: the addresses that it is bound to, and the memory that a replay writes.

A replay writes two kinds of memory: its results, and what it needs in between. What it needs in between is shared with
all other recordings of the device, so it may be where a recording made later has its results. Before a replay, results
in either that somebody still holds are moved to other memory.

A call hands out new tensors over the results. Of those that autograd saves and nobody else gets, which are most of a
training step's, the same tensors are handed out in each call: to make a tensor takes longer than to see that nobody
holds it any more.

A backward graph's recording takes over the memory of such results, once it has read them: what it needs in between, and
its own results, may lie there. So a training step takes no more memory than a call without recordings. The results are
lent then: the recording that writes them holds tensors that do not keep the memory, which is the pool's.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.arguments import aligned_copy, flat_view
from cuesta.runtime.uniqueness_check import is_alone
from cuesta.torch_private.tensors import copy_each, reinterpret_tensor, storage_key, storage_uses, uses, without_memory

Tensor = torch.Tensor
#: Addresses of the first byte and of the byte behind the last one.
Range = tuple[int, int]

_view: Callable[..., Tensor] = reinterpret_tensor
_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr
_uses: Callable[[int], int] = storage_uses


def _over(owner: Tensor) -> Tensor:
    """A new tensor over the same memory."""
    return _view(owner, tuple(owner.shape), owner.stride(), 0)


def _holders(tensors: Sequence[Any]) -> tuple[list[int], list[int]]:
    """How many hold each tensor's Python object, the list among them, and its C++ object."""
    return list(map(sys.getrefcount, tensors)), list(map(uses, tensors))


#: The counts of a tensor that only an attribute holds. Measured, because they differ between versions.
_HELD_ONCE = SimpleNamespace(lasting=torch.empty(1))
_FREE = _holders([_HELD_ONCE.lasting])
#: The counts of one that the list of a call's arguments holds as well.
_ARGUMENTS = [_HELD_ONCE.lasting]
_TAKEN = _holders([_ARGUMENTS[0]])
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
        return self.lasting is not None and _holders([self.lasting]) != _FREE

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
            self._may_be_held = _holders([block.lasting for block in self.lasting]) != self._free
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


@dataclass(eq=False)
class Recording:
    """A program recorded for one set of addresses."""

    replay: Callable[[], None]
    fixed: list[int]  # arguments, beside the static ones, that are read in place
    addresses: list[int]  # the addresses of the arguments `fixed`
    storages: list[StorageWeakRef]  # of the static arguments
    copied: dict[int, Tensor]  # argument → the recording's own copy of it
    results: Results  # the storages of what it makes
    places: list[int]  # result → the number of the tensor that it is; -1: the result lies in an argument
    scratch: list[Range]  # memory that a replay may write in between
    taken: dict[int, Block]  # argument → the lent block that it is, which a replay may write after it has read it
    targets: list[Tensor] = field(init=False)  # the tensors `copied`; flat views if elements leave gaps or overlap
    flat: frozenset[int] = field(init=False)  # the arguments whose targets are flat views
    returned: set[int] = field(init=False)  # the addresses of the results
    overlaid: dict[Results, list[Block]] = field(init=False, default_factory=dict)  # others' that lie in `scratch`
    _alive: list[weakref.ref[Tensor]] = field(default_factory=list)  # results of one replay that the next one found
    _was_handed_out: bool = False
    _was_given_back: bool = False

    def __post_init__(self) -> None:
        self.flat = frozenset(i for i, tensor in self.copied.items() if not _is_dense(tensor))
        self.targets = [flat_view(tensor) if i in self.flat else tensor for i, tensor in self.copied.items()]
        blocks = self.results.blocks
        self.returned = {owner.data_ptr() for block in blocks for owner in block.owners if owner.numel()}
        self._handed = blocks[0].handed if blocks else {}
        others = [block for block in blocks if block.lasting is None]
        owners = {i: owner for block in others for i, owner in zip(block.places, block.owners, strict=True)}
        self._new = {i: (x, tuple(x.shape), x.stride(), 0) for i, x in owners.items()}
        self._taken_free = tuple(counts * len(self.taken) for counts in _TAKEN)
        self.count_taken()

    def count_taken(self) -> None:
        """Counts the uses of the arguments `taken` anew, where a block was lent."""
        self._taken_keys = [block.key for block in self.taken.values()]
        self._taken_uses = [block.own_uses for block in self.taken.values()]

    def overlay(self, results: Results, blocks: Sequence[Block]) -> None:
        """Adds those of a recording's blocks that lie in `scratch` to `overlaid`."""
        found = [block for block in blocks if block.lies_in(self.scratch)]
        if found:
            self.overlaid.setdefault(results, []).extend(found)

    def forget(self) -> None:
        """Drops what is overlaid of recordings that are gone, where nobody holds it."""
        self.overlaid = {of: blocks for of, blocks in self.overlaid.items() if not of.is_gone or not of.are_free()}

    def may_take(self, tensors: list[Tensor]) -> bool:
        """Whether nobody else holds the arguments that a replay may write after it has read them."""
        if not self.taken:
            return True
        is_alone = list(map(_uses, self._taken_keys)) == self._taken_uses
        return is_alone and _holders(list(map(tensors.__getitem__, self.taken))) == self._taken_free

    def was_in_the_way(self) -> bool:
        """Whether results of the last replay had to be moved for another recording's."""
        return any(block.moved is not None for block in self.results.blocks)

    def copy_in(self, tensors: Sequence[Tensor]) -> None:
        """Copies the arguments `copied` into the recording's memory."""
        if self.targets:
            sources = [flat_view(tensors[i]) if i in self.flat else tensors[i] for i in self.copied]
            with torch.no_grad():
                if len(sources) == 1:
                    self.targets[0].copy_(sources[0])
                else:
                    copy_each(self.targets, sources)

    def misplaced(self, tensors: Sequence[Tensor]) -> list[int]:
        """The fixed arguments whose addresses differ from the recorded ones."""
        found = list(map(_data_ptr, map(tensors.__getitem__, self.fixed)))
        if found == self.addresses:
            return []
        return [i for i, a, b in zip(self.fixed, found, self.addresses, strict=True) if a != b]

    def is_dead(self) -> bool:
        """Whether the memory of a static argument was freed, so that no call can fit but by chance."""
        return any(storage.expired() for storage in self.storages)

    def is_free(self) -> bool:
        """Whether nobody holds what a replay writes."""
        if not self.results.are_free():
            return False
        return all(of.are_free() or not any(b.is_held() for b in blocks) for of, blocks in self.overlaid.items())

    def gives_back(self) -> bool:
        """Whether the results of some replay were freed later, so that another recording would be free in time."""
        return self._was_given_back or (bool(self._alive) and not any(ref() is not None for ref in self._alive))

    def is_mostly_held(self) -> bool:
        """Whether somebody holds at least half of the bytes of the results."""
        sizes = {block: block.owners[0].untyped_storage().nbytes() for block in self.results.blocks}
        return 2 * sum(size for block, size in sizes.items() if block.is_held()) >= sum(sizes.values())

    def make_room(self) -> bool:
        """Moves results that somebody still holds to other memory. False if one of them cannot be moved."""
        blocks = [*self.results.blocks, *itertools.chain.from_iterable(self.overlaid.values())]
        if not can_move(blocks):
            return False
        for block in blocks:
            block.move()
        return True

    def hand_out(self) -> list[Tensor]:
        """Tensors over the memory that a replay has written."""
        lasting = self.results.lasting
        moved = [block.moved for block in lasting if block.moved is not None]
        alive = [ref for ref in (*self._handed.values(), *moved) if ref() is not None]
        self._was_given_back = self.gives_back() or (self._was_handed_out and not alive)
        self._alive, self._was_handed_out = alive, True
        for block in self.results.blocks:
            block.moved = None
        tensors: list[Any] = [None] * (len(lasting) + len(self._new))
        for block in lasting:
            tensors[block.places[0]] = block.lasting
        for i, given in self._new.items():
            tensors[i] = tensor = _view(*given)
            self._handed[i] = weakref.ref(tensor)
        self.results.note_replay()
        return tensors


def _is_dense(tensor: Tensor) -> bool:
    """Whether the tensor's elements leave no gaps and do not overlap."""
    filled = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != filled:
            return False
        filled *= size
    return True
