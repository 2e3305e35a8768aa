"""Programs recorded into CUDA graphs: a call is then one replay, whatever the count of its launches.

    run = RecordedProgram(executable, metadata, static={0, 1}, recorder=CudaRecorder(device))
    results = run([weight, bias, x])      # first call: as it is; second: recorded; from then on replayed

A recording is bound to addresses. Arguments that keep theirs (parameters, buffers, and what another recording
returned) are read where they are; others are copied into memory of the recording's own. What a recording returns lies
in memory that its next replay writes: where somebody still holds a result then, its memory is moved away first; where
somebody holds a view of it, or autograd has saved it, that call runs as it is, without the recording. So no result
ever changes under its owner.

All recordings of a device share one pool of memory, and results keep theirs for good; so replays follow one another,
whatever streams they are called on.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from cuesta.reports.quantities import count_text
from cuesta.runtime.arguments import aligned_copy, argument_result, flat_view

Tensor = torch.Tensor
Program = Callable[[list[Tensor]], list[Tensor]]

#: Recordings of one program, each for other addresses of its static arguments, before it is left as it is.
MOST_RECORDINGS = 8
#: Calls in a row that run as they are because what they read is not where another recording leaves it.
STRAY_CALLS = 2

_view: Callable[..., Tensor] = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]
_data_ptr: Callable[[Tensor], int] = torch._C.TensorBase.data_ptr
_uses: Callable[[int], int] = torch._C._storage_Use_Count


class Recorder(Protocol):
    """What records work on a device."""

    lock: threading.RLock
    #: addresses of the results of recordings
    returned: set[int]

    def record(self, run: Callable[[], list[Tensor]]) -> tuple[Callable[[], None], list[Tensor]]:
        """What replays the work that `run` queues, and its results; nothing has run then."""

    def is_busy(self) -> bool:
        """Whether the current stream is being recorded by somebody else."""

    def follow(self) -> None:
        """Makes the current stream wait for what earlier replays, on other streams, have queued."""


@dataclass(frozen=True)
class _Result:
    """Memory that a recording writes a result into, as a tensor of ours."""

    owner: Tensor
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage: int


@dataclass
class _Recording:
    """A program recorded for one set of addresses."""

    replay: Callable[[], None]
    fixed: list[int]  # arguments that are read where they are
    addresses: list[int]  # of those
    copied: dict[int, Tensor]  # argument → memory of ours that stands for it
    made: list[_Result]  # no two of them the same tensor
    places: list[int]  # of each result among those; -1: it lies in an argument
    own_uses: dict[int, int]  # of the storages of those, by `made` alone
    targets: list[Tensor]  # of `copied`; as one dim where elements leave gaps or overlap
    flat: frozenset[int]  # the arguments for which that is so
    handed: list[weakref.ref[Tensor]] = field(default_factory=list)  # the tensors of the last replay, as `made`

    def copy_in(self, tensors: Sequence[Tensor]) -> None:
        """Copies the arguments that are read at an address of ours."""
        if self.targets:
            sources = [flat_view(tensors[i]) if i in self.flat else tensors[i] for i in self.copied]
            with torch.no_grad():
                if len(sources) == 1:
                    self.targets[0].copy_(sources[0])
                else:
                    torch._foreach_copy_(self.targets, sources)

    def misplaced(self, tensors: Sequence[Tensor]) -> list[int]:
        """The arguments that are not where they were."""
        found = list(map(_data_ptr, map(tensors.__getitem__, self.fixed)))
        if found == self.addresses:
            return []
        return [i for i, a, b in zip(self.fixed, found, self.addresses, strict=True) if a != b]

    def make_room(self) -> bool:
        """Moves results that are still held away. False where some cannot be moved."""
        held = {storage for storage, own in self.own_uses.items() if _uses(storage) != own}
        if not held:
            return True
        moving = {}
        for result, ref in zip(self.made, self.handed, strict=False):  # none before the first replay
            tensor = ref() if result.storage in held else None
            if tensor is not None:
                moving[result.storage] = tensor
        # One use that is no tensor of ours, or a second one, may be a view or what autograd has saved.
        if len(moving) < len(held) or any(_uses(storage) != self.own_uses[storage] + 1 for storage in held):
            return False
        with torch.no_grad():
            for tensor in moving.values():
                tensor.data = aligned_copy(tensor)
        return True

    def hand_out(self) -> list[Tensor]:
        """New tensors over what a replay has written."""
        tensors = [_view(r.owner, r.sizes, r.strides, 0) for r in self.made]
        self.handed = list(map(weakref.ref, tensors))
        return tensors


class RecordedProgram:
    """A program that records itself. Takes and gives what the program does; threads take turns."""

    def __init__(
        self,
        program: Program,
        metadata: dict[str, Any],
        static: Collection[int],
        recorder: Recorder,
        fits: Callable[[list[Tensor]], bool],
        tell: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        """`static` are the arguments that keep their addresses; `fits` says whether the program takes arguments as they
        are; `tell` hears what became of the recording."""
        self._program, self._metadata, self._static, self._fits = program, metadata, frozenset(static), fits
        self._recorder, self._tell = recorder, tell
        self._recording: _Recording | None = None
        self._recorded = 0
        self._is_warm = False
        self._strays = 0
        self._without = 0
        self._wandering: set[int] = set()  # arguments that only seemed to come from one recording
        self._reason: str | None = None

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        # A replay looks at nothing: what the program would copy, or refuse, goes to the program.
        if self._reason is not None or self._recorder.is_busy() or not self._fits(tensors):
            return self._program(tensors)
        with self._recorder.lock:
            if not self._is_warm:
                # What libraries choose and load at a first call cannot be recorded.
                self._is_warm = True
                return self._program(tensors)
            recording = self._recording_for(tensors)
            if recording is not None and recording.make_room():
                return self._replay(recording, tensors)
            if self._reason is None:
                self._without += 1
                ran = count_text(self._without, "call")
                self._tell(f"recorded; {ran} ran without it, as results of earlier ones were in use")
        return self._program(tensors)

    def _recording_for(self, tensors: list[Tensor]) -> _Recording | None:
        """The recording that these arguments fit, made where there is none; None where they go without one."""
        if self._recording is not None:
            misplaced = self._recording.misplaced(tensors)
            if not misplaced:
                self._strays = 0
                return self._recording
            if not self._static.intersection(misplaced):
                # From a call that ran without its recording: where that is the rule, they are copied.
                self._strays += 1
                if self._strays <= STRAY_CALLS:
                    return None
                self._wandering.update(misplaced)
        if self._recorded == MOST_RECORDINGS:
            self._give_up(f"parameters moved {MOST_RECORDINGS} times")
            return None
        try:
            self._recording = self._record(tensors)
        except Exception as error:  # out of memory too: without copies of its arguments the call may fit
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
        storages = [owner.untyped_storage()._cdata for owner in owners.values()]
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
    """Whether elements fill the tensor's memory, each a place of its own."""
    filled = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != filled:
            return False
        filled *= size
    return True
