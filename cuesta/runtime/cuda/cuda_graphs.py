"""Records programs into CUDA graphs, so that a call is one replay instead of many launches.

    run = RecordedProgram(executable, metadata, static={0, 1}, recorder=CudaRecorder(device))
    results = run([weight, bias, x])      # first call: not recorded; second: recorded; later calls: replayed

A recording is bound to addresses. Arguments that keep their addresses (parameters, buffers, and results of other
recordings) are read in place. So are those that lie in the same storage as in the first call, such as a batch that is
copied into the same tensor. One that turns out to move is copied from then on. All other arguments are copied into
memory of the recording. Among them are new tensors that torch's allocator happened to put where the last call's were.
Once the calls around them are recorded too, the allocator may put them elsewhere. Then this recording, and all that
read its results, would have to be made anew.

A program that a model calls for several layers, each with its own parameters, has a recording for each layer. Where
autograd saves an argument that was copied, it gets the copy: the backward graph's recording reads it in place.

A replay writes its results to the same memory as the replay before. If somebody still holds such a result, its values
are moved to other memory before the replay. If somebody holds a view of the result, the call runs the program without
the recording. Where most results are held, but given back later, as autograd does after the backward pass, another
recording for the same addresses is made. So no result ever changes under its owner.

Recordings of a device share memory, and results keep theirs for good, but for those that are lent (results.py). So
replays run one after another, whatever streams they are called on.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.arguments import argument_result
from cuesta.runtime.cuda import lending
from cuesta.runtime.cuda.recorder import Recorder, enter
from cuesta.runtime.cuda.recording import Recording
from cuesta.runtime.cuda.results import Block, Pool, Results, can_move
from cuesta.runtime.schema import program as schema
from cuesta.torch_private.tensors import storage_key

Tensor = torch.Tensor
Program = Callable[[list[Tensor]], list[Tensor]]

#: A program is recorded at most this often. Then it runs unrecorded.
MOST_RECORDINGS = 512
#: A call runs unrecorded if an argument is not where another recording used to return it. After this many such calls in
#: a row with the same static arguments, that argument is copied. One that was in the first call's storage is copied as
#: soon as it moves.
STRAY_CALLS = 2
#: Recordings for the same addresses. Each has memory of its own for its results.
MOST_VERSIONS = 16
#: Calls after which a program takes over no arguments any more, because its results in them had to be moved.
MOST_IN_THE_WAY = 2
#: Sets of addresses that are remembered for a second call with them, after which a program runs unrecorded.
MOST_ADDRESSES = 1024

_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr
#: An address and the storage that it lies in. A storage that is allocated later at the same address is another place.
_Place = tuple[int, StorageWeakRef]


def _place(tensor: Tensor) -> _Place:
    return tensor.data_ptr(), StorageWeakRef(tensor.untyped_storage())


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
        saved: Collection[int] = (),
        overwrites: Program | None = None,
        passed: Sequence[int] = (),
    ) -> None:
        """`static` are the arguments that keep their addresses. `fits` says whether arguments pass the program's check
        without copies. `tell` is called with the outcome of the recording, as text. Only autograd gets the results
        `saved`. `overwrites` is the program where it overwrites lent arguments whoever holds them; by default the
        same. The arguments `passed`, or a recording's copies of them, are returned behind the results, and autograd
        alone gets them."""
        self._program, self._metadata, self._fits = program, metadata, fits
        self._overwrites = overwrites or program
        count = len(metadata["results"])
        self._passed = dict(enumerate(passed, count))  # result → argument
        self._saved = frozenset([*saved, *self._passed])
        self._released, self._unread = frozenset(metadata["released"]), frozenset(metadata["unread"])
        self._lent = frozenset(metadata["lent"])
        described = enumerate(metadata["results"])
        # The results that lie in arguments → their arguments
        self._in_arguments = {i: result["index"] for i, result in described if result["kind"] == "argument"}
        self._static = dict.fromkeys(sorted(static))
        self._recorder, self._tell = recorder, tell
        # The addresses of the static arguments → the recordings for them. None are made until the second call, because
        # libraries choose and load code in the first one.
        self._recordings: dict[tuple[int, ...], list[Recording]] = {}
        # The same key → where each argument was in the first call, without those that have moved since
        self._first: dict[tuple[int, ...], dict[int, _Place]] = {}
        self._last: Callable[[], Recording | None] = lambda: None  # the one that was replayed last
        self._recorded = 0
        self._takes = True
        self._in_the_way = 0
        self._strays: Counter[tuple[int, ...]] = Counter()  # the same key → how many calls of STRAY_CALLS
        self._without = 0
        self._wandering: set[int] = set()  # arguments that a recording returned once, but not in every call
        self._reason: str | None = None

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        # A replay checks nothing, so arguments that the program would copy or refuse must go to the program.
        if self._reason is not None or self._recorder.is_busy() or not self._fits(tensors) or self._has_kept(tensors):
            return self._run(self._program, tensors)
        with self._recorder.lock:
            recording = self._recording_for(tensors)
            if recording is None or not self._may_take(recording, tensors):
                return self._run(self._program, tensors)
            return self._replay(recording, tensors)

    def _run(self, program: Program, tensors: list[Tensor]) -> list[Tensor]:
        """The results of a program, and the arguments passed."""
        passed = [tensors[i] for i in self._passed.values()]
        return program(tensors) + passed

    def _has_kept(self, tensors: list[Tensor]) -> bool:
        """Whether somebody else holds an argument that a replay would overwrite where another recording returned it."""
        if not self._lent:
            return False
        last = self._last()
        if last is not None and last.takes(self._lent, tensors) and last.may_take(tensors):
            return False  # the usual case: they lie in the same blocks as in the last call, and nobody holds one
        lent = [i for i in self._lent if tensors[i].data_ptr() in self._recorder.returned]
        found = [self._recorder.blocks.get(storage_key(tensors[i])) for i in lent]
        return not all(known and known[0].is_alone_in(tensors, i) for i, known in zip(lent, found, strict=True))

    def _may_take(self, recording: Recording, tensors: list[Tensor]) -> bool:
        """Whether a replay may write the arguments that the recording took over. Later recordings of the program take
        over none if somebody holds such an argument, or if the program's results in lent memory, such as gradients that
        are added up, are often held when that memory is written anew."""
        may_take = recording.may_take(tensors)
        self._in_the_way += recording.was_in_the_way()
        if self._takes and not (may_take and self._in_the_way <= MOST_IN_THE_WAY):
            self._takes = False
            for recordings in self._recordings.values():
                recordings[:] = [r for r in recordings if not r.lies_in_lent]
        return may_take

    def _recording_for(self, tensors: list[Tensor]) -> Recording | None:
        """A recording for these arguments that may write its results, made if there is none. None if the call runs
        without a recording."""
        known = self._known(tensors)
        if known is None:
            return None
        for recording in self._likely_first(known):
            if self._is_current(recording, tensors) and recording.is_free():
                self._end_strays(tensors)
                return recording
        fitting = [recording for recording in known if not recording.misplaced(tensors)]
        current = [recording for recording in fitting if self._is_current(recording, tensors)]
        for recording in [] if self._wants_another(current) else current:
            if recording.make_room() and not recording.misplaced(tensors):
                self._end_strays(tensors)
                return recording
        if self._runs_unrecorded(known, fitting, current, tensors):
            return None
        # Recordings stay whose own results are held. The others were made before another one's that they overwrite, or
        # copy what is now returned by one.
        known[:] = [r for r in known if r not in fitting or (r in current and not r.are_results_free())]
        return self._made(known, tensors)

    def _likely_first(self, known: list[Recording]) -> list[Recording]:
        """The recordings, with the one first that followed the last replayed one the time before: layers take turns."""
        last = self._last() if len(known) > 1 else None
        likely = None if last is None else last.follower()
        return known if likely is None else sorted(known, key=lambda recording: recording is not likely)

    def _wants_another(self, current: list[Recording]) -> bool:
        """Whether another recording for the same addresses costs less than to move results, all of which are held."""
        return 0 < len(current) < MOST_VERSIONS and all(r.gives_back() and r.is_mostly_held() for r in current)

    def _known(self, tensors: list[Tensor]) -> list[Recording] | None:
        """The recordings for the addresses of the static arguments. None if these addresses are new."""
        key = self._key(tensors)
        known = self._recordings.get(key)
        if known is None:
            self._recordings[key] = []
            self._first[key] = {i: _place(t) for i, t in enumerate(tensors) if i not in self._static}
            if len(self._recordings) > MOST_ADDRESSES:
                self._give_up(f"parameters moved {MOST_ADDRESSES} times")
        return known

    def _key(self, tensors: list[Tensor]) -> tuple[int, ...]:
        """The addresses of the static arguments."""
        return tuple(map(_data_ptr, map(tensors.__getitem__, self._static)))

    def _is_current(self, recording: Recording, tensors: list[Tensor]) -> bool:
        """Whether a recording reads these arguments where they are, and copies none that another recording returns."""
        if recording.misplaced(tensors):
            return False
        sources = zip(recording.copied, recording.sources(tensors), strict=True)
        others = (at for i, at in sources if i not in self._wandering and at not in recording.returned)
        return self._recorder.returned.keys().isdisjoint(others)

    def _runs_unrecorded(
        self, known: list[Recording], fitting: list[Recording], current: list[Recording], tensors: list[Tensor]
    ) -> bool:
        """Whether a call for which no recording is free runs without one: because its results may stay in use, or its
        arguments come from a call that ran unrecorded."""
        if current and not all(can_move(recording.blocks) or recording.gives_back() for recording in current):
            self._without += 1
            ran = "1 call" if self._without == 1 else f"{self._without} calls"
            self._tell(f"recorded; {ran} ran without the recording, because earlier results were still in use")
            return True
        if fitting or not known:
            return False
        strays = [i for i in known[-1].misplaced(tensors) if tensors[i].data_ptr() not in self._recorder.returned]
        if not strays:
            return False
        key = self._key(tensors)
        if moved := known[-1].stayed.intersection(strays):
            for i in moved:
                del self._first[key][i]
            known[:] = [recording for recording in known if recording.stayed.isdisjoint(moved)]
            return False
        self._strays[key] += 1
        if self._strays[key] > STRAY_CALLS:
            self._wandering.update(strays)
        return self._strays[key] <= STRAY_CALLS

    def _end_strays(self, tensors: list[Tensor]) -> None:
        """Notes that a recording was found, so that the calls of STRAY_CALLS are no longer in a row."""
        if self._strays:
            self._strays.pop(self._key(tensors), None)

    def _made(self, known: list[Recording], tensors: list[Tensor]) -> Recording | None:
        """A new recording for these arguments. None if it cannot be made."""
        if self._recorded == MOST_RECORDINGS:
            self._give_up(f"it was recorded {MOST_RECORDINGS} times")
            return None
        for recordings in self._recordings.values():
            recordings[:] = [r for r in recordings if not (r.is_dead() or self._wandering.intersection(r.fixed))]
        try:
            recording = self._record(tensors)
        except Exception as error:  # also if out of memory: the call may fit without copies of its arguments
            self._give_up(str(error).strip().partition("\n")[0] or type(error).__name__)
            return None
        known.append(recording)
        self._recorded += 1
        self._tell("recorded")
        return recording

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self._recordings.clear()
        self._first.clear()
        self._tell(f"not recorded: {reason}")

    def _record(self, tensors: list[Tensor]) -> Recording:
        fixed, copied = self._sorted(tensors)
        pool, taken = self._to_take(tensors, fixed)
        left = self._to_leave(tensors, fixed, taken)
        if self._takes:
            lending.lend_dead(pool, self._recorder)
        arguments = list(tensors)
        # From here on `arguments` alone holds the memory of those taken: when the program has read it, it is free.
        lending.lend(taken, tensors, self._recorder)

        def run(copies: list[Tensor]) -> list[Tensor]:
            for i in reversed(copied):
                arguments[i] = copies.pop()
            return self._run(self._overwrites, arguments)

        replay, results, copies = self._recorder.record(run, pool, [tensors[i] for i in copied])
        arguments.clear()
        lying = {i for i, described in enumerate(self._metadata["results"]) if described["kind"] == "argument"}
        lying |= {i for i, argument in self._passed.items() if argument not in copied}
        owners = {id(r): r for i, r in enumerate(results) if i not in lying}
        numbers = {key: i for i, key in enumerate(owners)}
        places = [numbers.get(id(r), -1) for r in results]
        del results
        made = list(owners.values())
        saved = {place for i, place in enumerate(places) if i in self._saved}
        saved -= {place for i, place in enumerate(places) if i not in self._saved}
        blocks = Block.all_of(made, saved, pool)
        recording = Recording(
            replay,
            fixed,
            [tensors[i].data_ptr() for i in fixed],
            frozenset(i for i in fixed if tensors[i].data_ptr() not in self._recorder.returned),
            [StorageWeakRef(tensors[i].untyped_storage()) for i in self._static],
            dict(zip(copied, copies, strict=True)),
            Results([block for block in blocks if block.number is None], self._recorder.held),
            Results([block for block in blocks if block.number is not None], self._recorder.held),
            places,
            self._recorder.memory(pool),
            taken,
            lending.consumed(taken, self._recorder),
            bool(pool.lent),
        )
        for block, of in pool.lent.items():
            if block not in taken.values():
                recording.overlay(of, [block])
        enter(recording, self._recorder)
        lending.lend(left, tensors, self._recorder)
        return recording

    def _sorted(self, tensors: list[Tensor]) -> tuple[list[int], list[int]]:
        """Of the arguments that are read and not static: those that a recording reads in place, and those that it
        copies."""
        written = {*self._released, *self._metadata["mutates"], *self._lent}
        first = self._first[self._key(tensors)]
        fixed, copied = [], []
        for i in range(len(tensors)):  # no name holds a tensor, so that one that is taken over is freed in time
            if i in self._static or i in self._unread:
                continue
            at = tensors[i].data_ptr()
            stays = i not in written and first.get(i) == _place(tensors[i])
            if at and i not in self._wandering and (stays or at in self._recorder.returned):
                fixed.append(i)
            elif tensors[i].numel():
                copied.append(i)
        return fixed, copied

    def _to_take(self, tensors: list[Tensor], fixed: Sequence[int]) -> tuple[Pool, dict[int, Block]]:
        """The pool of a new recording, and the arguments that it may take over: those of one open pool that the program
        frees, and that nobody else holds."""
        found = lending.blocks_of(tensors, [i for i in fixed if i in self._released], self._recorder)
        taken = {i: block for i, block in found.items() if block.number is not None}
        pool = next((block.pool for block in taken.values()), None)
        if pool is None or not self._takes or not pool.is_open():
            return self._recorder.open_pool(self._takes), {}
        return pool, {i: block for i, block in taken.items() if block.pool is pool}

    def _to_leave(self, tensors: list[Tensor], fixed: Sequence[int], taken: dict[int, Block]) -> dict[int, Block]:
        """Of the other arguments those that nobody else holds: later recordings may have their memory."""
        if not self._takes:
            return {}
        kept = {*taken, *self._in_arguments.values(), *self._metadata["mutates"], *self._lent}
        return lending.blocks_of(tensors, [i for i in fixed if i not in kept], self._recorder)

    def _note(self, recording: Recording) -> None:
        """Notes which recording is replayed, and after which one."""
        last = self._last()
        if last is not recording:
            self._last = weakref.ref(recording)
            if last is not None:
                last.follower = self._last

    def _replay(self, recording: Recording, tensors: list[Tensor]) -> list[Tensor]:
        self._recorder.follow()
        if recording.copied:
            self._recorder.copy(recording.copies, recording.sources(tensors))
        recording.replay()
        self._note(recording)
        for i in self._metadata["mutates"]:
            if i in recording.copied:
                tensors[i].copy_(recording.copied[i])
        for i in recording.taken:
            tensors[i] = None  # type: ignore[call-overload]
        results = recording.hand_out()
        for i, argument in self._in_arguments.items():
            results[i] = argument_result(tensors[argument], self._metadata["results"][i])
        for i, argument in self._passed.items():
            if argument not in recording.copied:
                results[i] = tensors[argument]
        return results
