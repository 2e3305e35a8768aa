"""Records programs into CUDA graphs, so that a call is one replay instead of many launches.

    run = RecordedProgram(executable, metadata, static={0, 1}, recorder=CudaRecorder(device))
    results = run([weight, bias, x])      # first call: not recorded; second: recorded; later calls: replayed

A recording is bound to addresses. Arguments that keep their addresses (parameters, buffers, and results of other
recordings) are read in place. All other arguments are copied into memory of the recording. A replay writes its results
to the same memory as the replay before. If somebody still holds such a result, its values are moved to other memory
before the replay. If somebody holds a view of the result, or autograd has saved it, the call runs the program without
the recording. So no result ever changes under its owner.

All recordings of a device share one memory pool, and results keep their memory for good. So replays run one after
another, whatever streams they are called on.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from cuesta.runtime.arguments import aligned_copy, argument_result, flat_view
from cuesta.runtime.schema import program as schema
from cuesta.torch_private.tensors import copy_each, reinterpret_tensor, storage_key, storage_uses

Tensor = torch.Tensor
Program = Callable[[list[Tensor]], list[Tensor]]

#: A program is recorded at most this often, each time for other addresses of its static arguments. Then it runs
#: unrecorded.
MOST_RECORDINGS = 8
#: Consecutive calls that run unrecorded because an argument is not where another recording returns it. Later such
#: arguments are copied.
STRAY_CALLS = 2

_view: Callable[..., Tensor] = reinterpret_tensor
_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr
_uses: Callable[[int], int] = storage_uses


class Recorder(Protocol):
    """Records work on a device."""

    lock: threading.RLock
    #: the addresses of all results of recordings
    returned: set[int]

    def record(self, run: Callable[[], list[Tensor]]) -> tuple[Callable[[], None], list[Tensor]]:
        """Records the work that `run` queues, without running it. Returns a function that replays it, and the results
        of `run`."""

    def is_busy(self) -> bool:
        """Whether somebody else is recording the current stream."""

    def follow(self) -> None:
        """Makes the current stream wait for earlier replays on other streams."""


@dataclass(frozen=True)
class _Result:
    """Memory that a recording writes a result into. `owner` is the tensor that keeps this memory alive."""

    owner: Tensor
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage: int


@dataclass
class _Recording:
    """A program recorded for one set of addresses."""

    replay: Callable[[], None]
    fixed: list[int]  # arguments that are read in place
    addresses: list[int]  # the addresses of the arguments `fixed`
    copied: dict[int, Tensor]  # argument → the recording's own copy of it
    made: list[_Result]  # the memory of the results, each tensor once
    places: list[int]  # result → index in `made`; -1: the result lies in an argument
    own_uses: dict[int, int]  # storage of a result → its use count while only `made` holds it
    targets: list[Tensor]  # the tensors `copied`; flat views if elements leave gaps or overlap
    flat: frozenset[int]  # the arguments whose targets are flat views
    handed: list[weakref.ref[Tensor]] = field(default_factory=list)  # the last replay's results, in order of `made`

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

    def make_room(self) -> bool:
        """Moves results that somebody still holds to other memory. False if one of them cannot be moved."""
        held = {storage for storage, own in self.own_uses.items() if _uses(storage) != own}
        if not held:
            return True
        moving = {}
        for result, ref in zip(self.made, self.handed, strict=False):  # none before the first replay
            tensor = ref() if result.storage in held else None
            if tensor is not None:
                moving[result.storage] = tensor
        # A use by anything but the tensor handed out, or a second use, may be a view or a tensor that autograd saved.
        if len(moving) < len(held) or any(_uses(storage) != self.own_uses[storage] + 1 for storage in held):
            return False
        with torch.no_grad():
            for tensor in moving.values():
                tensor.data = aligned_copy(tensor)
        return True

    def hand_out(self) -> list[Tensor]:
        """New tensors over the memory that a replay has written."""
        tensors = [_view(r.owner, r.sizes, r.strides, 0) for r in self.made]
        self.handed = list(map(weakref.ref, tensors))
        return tensors


class RecordedProgram:
    """A program that records itself. Takes the program's arguments and returns its results; threads take turns."""

    def __init__(
        self,
        program: Program,
        metadata: schema.Program,
        static: Collection[int],
        recorder: Recorder,
        fits: Callable[[list[Tensor]], bool],
        tell: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        """`static` are the arguments that keep their addresses. `fits` says whether arguments pass the program's check
        without copies. `tell` is called with the outcome of the recording, as text."""
        self._program, self._metadata, self._static, self._fits = program, metadata, frozenset(static), fits
        self._recorder, self._tell = recorder, tell
        self._recording: _Recording | None = None
        self._recorded = 0
        self._is_warm = False
        self._strays = 0
        self._without = 0
        self._wandering: set[int] = set()  # arguments that a recording returned once, but not in every call
        self._reason: str | None = None

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        # A replay checks nothing, so arguments that the program would copy or refuse must go to the program.
        if self._reason is not None or self._recorder.is_busy() or not self._fits(tensors):
            return self._program(tensors)
        with self._recorder.lock:
            if not self._is_warm:
                # The first call is not recorded, because libraries choose and load code in it.
                self._is_warm = True
                return self._program(tensors)
            recording = self._recording_for(tensors)
            if recording is not None and recording.make_room():
                return self._replay(recording, tensors)
            if self._reason is None:
                self._without += 1
                ran = "1 call" if self._without == 1 else f"{self._without} calls"
                self._tell(f"recorded; {ran} ran without the recording, because earlier results were still in use")
        return self._program(tensors)

    def _recording_for(self, tensors: list[Tensor]) -> _Recording | None:
        """The recording for these arguments, made if there is none. None if the call runs without a recording."""
        if self._recording is not None:
            misplaced = self._recording.misplaced(tensors)
            if not misplaced:
                self._strays = 0
                return self._recording
            if not self._static.intersection(misplaced):
                # These arguments come from a call that ran without its recording. If that repeats, they are copied.
                self._strays += 1
                if self._strays <= STRAY_CALLS:
                    return None
                self._wandering.update(misplaced)
        if self._recorded == MOST_RECORDINGS:
            self._give_up(f"parameters moved {MOST_RECORDINGS} times")
            return None
        try:
            self._recording = self._record(tensors)
        except Exception as error:  # also if out of memory: the call may fit without copies of its arguments
            self._give_up(str(error).strip().partition("\n")[0] or type(error).__name__)
            return None
        self._recorded += 1
        self._tell("recorded")
        return self._recording

    def _give_up(self, reason: str) -> None:
        self._reason, self._recording = reason, None
        self._tell(f"not recorded: {reason}")

    def _record(self, tensors: list[Tensor]) -> _Recording:
        fixed, copied = [], {}
        for i, tensor in enumerate(tensors):
            returned = tensor.data_ptr() in self._recorder.returned and i not in self._wandering
            if i in self._static or returned:
                fixed.append(i)
            elif tensor.numel():
                copied[i] = aligned_copy(tensor)
        arguments = [copied.get(i, tensor) for i, tensor in enumerate(tensors)]
        replay, results = self._recorder.record(lambda: self._program(arguments))
        described = self._metadata["results"]
        owners = {id(r): r for d, r in zip(described, results, strict=True) if d["kind"] != "argument"}
        numbers = {key: i for i, key in enumerate(owners)}
        places = [numbers.get(id(r), -1) for r in results]
        del results
        storages = [storage_key(owner) for owner in owners.values()]
        made = [
            _Result(owner, tuple(owner.shape), owner.stride(), storage)
            for owner, storage in zip(owners.values(), storages, strict=True)
        ]
        addresses = [tensors[i].data_ptr() for i in fixed]
        flat = frozenset(i for i, tensor in copied.items() if not _is_dense(tensor))
        targets = [flat_view(tensor) if i in flat else tensor for i, tensor in copied.items()]
        recording = _Recording(
            replay,
            fixed,
            addresses,
            copied,
            made,
            places,
            {storage: _uses(storage) for storage in storages},
            targets,
            flat,
        )
        returned_here = {result.owner.data_ptr() for result in made if result.owner.numel()}
        self._recorder.returned |= returned_here
        weakref.finalize(recording, self._recorder.returned.difference_update, returned_here)
        return recording

    def _replay(self, recording: _Recording, tensors: list[Tensor]) -> list[Tensor]:
        self._recorder.follow()
        recording.copy_in(tensors)
        recording.replay()
        for i in self._metadata["mutates"]:
            if i in recording.copied:
                tensors[i].copy_(recording.copied[i])
        made = recording.hand_out()
        return [
            made[place] if place >= 0 else argument_result(tensors[described["index"]], described)
            for place, described in zip(recording.places, self._metadata["results"], strict=True)
        ]


def _is_dense(tensor: Tensor) -> bool:
    """Whether the tensor's elements leave no gaps and do not overlap."""
    filled = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != filled:
            return False
        filled *= size
    return True
