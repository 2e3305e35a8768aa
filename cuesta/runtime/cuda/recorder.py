"""The interface of recorders. A recorder records work on a device. It knows all recordings there, their results, and
which of these somebody may hold."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from cuesta.runtime.cuda.recording import Recording
from cuesta.runtime.cuda.results import Block, Pool, Range, Results

Tensor = torch.Tensor


class Recorder(Protocol):
    """Records work on a device."""

    lock: threading.RLock
    #: the addresses of all results of recordings. Lent memory may have results of several.
    returned: Counter[int]
    #: the blocks of all recordings, and what they are part of, by their storages' keys
    blocks: dict[int, tuple[Block, Results]]
    #: all recordings that there are
    recordings: weakref.WeakSet[Recording]
    #: the results of recordings that somebody may hold
    held: set[Results]

    def open_pool(self, with_lent: bool = True) -> Pool:
        """A pool in which a recording may be made. Its results may lie in lent memory, if the pool has any."""

    def record(
        self, run: Callable[[list[Tensor]], list[Tensor]], pool: Pool, given: Sequence[Tensor]
    ) -> tuple[Callable[[], None], list[Tensor], list[Tensor]]:
        """Records the work that `run` queues, without running it. `run` gets a list of tensors in the pool's memory,
        like those `given`; it may empty the list. Returns a function that replays the work, the results of `run`, and
        tensors over the memory of the list's, which do not keep it alive."""

    def copy(self, places: Sequence[tuple[int, int]], sources: Sequence[int]) -> None:
        """Queues copies: to each place, an address and a number of bytes, from the address of its source."""

    def memory(self, pool: Pool) -> list[Range]:
        """The memory of a pool, as it is now."""

    def is_busy(self) -> bool:
        """Whether somebody else is recording the current stream."""

    def follow(self) -> None:
        """Makes the current stream wait for earlier replays on other streams."""


def enter(recording: Recording, recorder: Recorder) -> None:
    """Makes a new recording known to the earlier ones, whose replays may overwrite its results, and to later ones,
    which may read its results in place."""
    for earlier in recorder.recordings:
        earlier.overlay(recording.given, recording.given.blocks)
        earlier.overlay(recording.saved, recording.saved.blocks)
    recorder.returned.update(recording.returned)
    for results in (recording.given, recording.saved):
        recorder.blocks |= {block.key: (block, results) for block in results.blocks}
    recorder.recordings.add(recording)
    weakref.finalize(recording, _leave, recorder, (recording.given, recording.saved), recording.returned)


def _leave(recorder: Recorder, made: Sequence[Results], returned: set[int]) -> None:
    """Frees what a recording that is gone has returned, but for results that somebody still holds."""
    recorder.returned -= Counter(returned)
    for results in made:
        for block in results.blocks:
            del recorder.blocks[block.key]
        results.leave()
    for earlier in [*recorder.recordings]:
        earlier.forget()
    recorder.held &= {of for r in recorder.recordings for of in (r.given, r.saved, *r.overlaid)}
