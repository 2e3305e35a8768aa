"""One recording of a program: the addresses that it is bound to, and the memory that a replay writes.

A replay writes two kinds of memory: its results, and what it needs in between. What it needs in between is shared with
all other recordings of its pool, so it may be where another one's results are (results.py). Before a replay, results in
either that somebody still holds are moved to other memory.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.arguments import extent
from cuesta.runtime.cuda.results import TAKEN, Block, Range, Results, can_move, holders
from cuesta.torch_private.tensors import reinterpret_tensor, storage_key, storage_uses

Tensor = torch.Tensor

_view: Callable[..., Tensor] = reinterpret_tensor
_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr
_uses: Callable[[int], int] = storage_uses


@dataclass(eq=False)
class Recording:
    """A program recorded for one set of addresses."""

    replay: Callable[[], None]
    fixed: list[int]  # arguments, beside the static ones, that are read in place
    addresses: list[int]  # the addresses of the arguments `fixed`
    stayed: frozenset[int]  # those of them that are no results of recordings, but lay there in the first call too
    storages: list[StorageWeakRef]  # of the static arguments
    copied: dict[int, Tensor]  # argument → a tensor over the recording's own copy of it, which does not keep it
    given: Results  # of what it makes, what the caller gets
    saved: Results  # what autograd alone gets
    places: list[int]  # result → the number of the tensor that it is; -1: it lies in an argument
    scratch: list[Range]  # memory that a replay may write in between
    taken: dict[int, Block]  # argument → the lent block that it is, which a replay may write after it has read it
    consumed: list[Results]  # those all of whose blocks are among `taken`
    lies_in_lent: bool  # whether the results may lie in lent memory
    copies: list[tuple[int, int]] = field(init=False)  # where those lie: address, and bytes with the gaps between
    returned: set[int] = field(init=False)  # the addresses of the results
    overlaid: dict[Results, list[Block]] = field(init=False, default_factory=dict)  # others' that lie in `scratch`
    follower: Callable[[], Recording | None] = lambda: None  # the program's other one that was replayed after it last
    _alive: list[weakref.ref[Tensor]] = field(default_factory=list)  # results of one replay that the next one found
    _was_handed_out: bool = False
    _was_given_back: bool = False

    def __post_init__(self) -> None:
        self.copies = [(tensor.data_ptr(), extent(tensor) * tensor.itemsize) for tensor in self.copied.values()]
        owners = [owner for block in self.blocks for owner in block.owners]
        self.returned = {owner.data_ptr() for owner in owners if owner.numel()}
        self._taken_free = tuple(counts * len(self.taken) for counts in TAKEN)
        self.count()

    def count(self) -> None:
        """Counts anew who uses what, and what a call hands out, where a block was lent."""
        self._taken_keys = [block.key for block in self.taken.values()]
        self._taken_uses = [block.own_uses for block in self.taken.values()]
        self._new = [i for block in self.given.blocks for i in block.places]
        owners = [owner for block in self.given.blocks for owner in block.owners]
        shapes, strides = [tuple(owner.shape) for owner in owners], [owner.stride() for owner in owners]
        self._views = owners, shapes, strides, [0] * len(owners)
        self._handed = self.given.blocks[0].handed if self.given.blocks else {}
        # In the list of what a call hands out, what is saved comes behind the others, and then a None.
        numbers = [*self._new, *(block.places[0] for block in self.saved.blocks), -1]
        order = {number: position for position, number in enumerate(numbers)}
        self._order = [order[place] for place in self.places]

    @property
    def blocks(self) -> list[Block]:
        """The storages of all that it makes."""
        return [*self.given.blocks, *self.saved.blocks]

    def overlay(self, results: Results, blocks: Sequence[Block]) -> None:
        """Adds those of a recording's blocks that lie in `scratch` to `overlaid`."""
        found = [block for block in blocks if block.lies_in(self.scratch)]
        if found:
            self.overlaid.setdefault(results, []).extend(found)

    def forget(self) -> None:
        """Drops what is overlaid of recordings that are gone, where nobody holds it."""
        self.overlaid = {of: blocks for of, blocks in self.overlaid.items() if not of.is_gone or not of.are_free()}

    def takes(self, arguments: Set[int], tensors: Sequence[Tensor]) -> bool:
        """Whether all these arguments are among the blocks that it takes over."""
        found = map(storage_key, map(tensors.__getitem__, self.taken))
        return self.taken.keys() >= arguments and list(found) == self._taken_keys

    def may_take(self, tensors: list[Tensor]) -> bool:
        """Whether nobody else holds the arguments that a replay may write after it has read them."""
        if not self.taken:
            return True
        is_alone = list(map(_uses, self._taken_keys)) == self._taken_uses
        return is_alone and holders(list(map(tensors.__getitem__, self.taken))) == self._taken_free

    def was_in_the_way(self) -> bool:
        """Whether results of the last replay that may lie in lent memory had to be moved for another recording."""
        return self.lies_in_lent and (self.given.was_in_the_way or self.saved.was_in_the_way)

    def sources(self, tensors: Sequence[Tensor]) -> list[int]:
        """The addresses of the arguments `copied`."""
        return list(map(_data_ptr, map(tensors.__getitem__, self.copied)))

    def misplaced(self, tensors: Sequence[Tensor]) -> list[int]:
        """The fixed arguments whose addresses differ from the recorded ones."""
        found = list(map(_data_ptr, map(tensors.__getitem__, self.fixed)))
        if found == self.addresses:
            return []
        return [i for i, a, b in zip(self.fixed, found, self.addresses, strict=True) if a != b]

    def is_dead(self) -> bool:
        """Whether the memory of a static argument was freed, so that no call can fit but by chance."""
        return any(storage.expired() for storage in self.storages)

    def are_results_free(self) -> bool:
        """Whether nobody holds what the last replay has made."""
        return self.given.are_free() and self.saved.are_free()

    def is_free(self) -> bool:
        """Whether nobody holds what a replay writes."""
        if not self.are_results_free():
            return False
        held = self.given.held
        if self.overlaid.keys().isdisjoint(held):
            return True
        found = [(of, blocks) for of, blocks in self.overlaid.items() if of in held]
        return all(of.are_free() or not any(b.is_held() for b in blocks) for of, blocks in found)

    def gives_back(self) -> bool:
        """Whether the results of some replay were freed later, so that another recording would be free in time."""
        return self._was_given_back or (bool(self._alive) and not any(ref() is not None for ref in self._alive))

    def is_mostly_held(self) -> bool:
        """Whether somebody holds at least half of the bytes of the results."""
        sizes = {block: block.owners[0].untyped_storage().nbytes() for block in self.blocks}
        return 2 * sum(size for block, size in sizes.items() if block.is_held()) >= sum(sizes.values())

    def make_room(self) -> bool:
        """Moves results that somebody still holds to other memory. False if one of them cannot be moved."""
        if not can_move([*self.blocks, *itertools.chain.from_iterable(self.overlaid.values())]):
            return False
        self.given.move(self.given.blocks)
        self.saved.move(self.saved.blocks)
        for of, blocks in self.overlaid.items():
            of.was_in_the_way |= of.move(blocks)
        return True

    def hand_out(self) -> list[Any]:
        """The results over the memory that a replay has written. None stands for a result that lies in an argument."""
        for results in self.consumed:
            results.held.discard(results)
        alive = self.given.hand_out() + self.saved.hand_out()
        self._was_given_back = self.gives_back() or (self._was_handed_out and not alive)
        self._alive, self._was_handed_out = alive, True
        made: list[Any] = list(map(_view, *self._views))
        self._handed.update(zip(self._new, map(weakref.ref, made), strict=True))
        made += self.saved.kept
        made.append(None)
        return list(map(made.__getitem__, self._order))
