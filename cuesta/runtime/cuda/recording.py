"""One recording of a program: the addresses that it is bound to, and the memory that a replay writes.

A replay writes two kinds of memory: its results, and what it needs in between. What it needs in between is shared with
all other recordings of its pool, so it may be where another one's results are (results.py). Before a replay, results in
either that somebody still holds are moved to other memory.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.arguments import flat_view
from cuesta.runtime.cuda.results import TAKEN, Block, Range, Results, can_move, holders
from cuesta.torch_private.tensors import copy_each, reinterpret_tensor, storage_uses

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
        self._taken_free = tuple(counts * len(self.taken) for counts in TAKEN)
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
        return is_alone and holders(list(map(tensors.__getitem__, self.taken))) == self._taken_free

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
