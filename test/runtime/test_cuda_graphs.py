"""Recorded programs: which memory they read, write and hand out. A list of closures stands for the device's graph."""

from __future__ import annotations

import ctypes
import gc
import inspect
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.arguments import flat_view
from cuesta.runtime.cuda import cuda_graphs, results
from cuesta.runtime.cuda.cuda_graphs import STRAY_CALLS, RecordedProgram
from cuesta.runtime.cuda.recording import Recording
from cuesta.runtime.cuda.results import Block, Pool, Range, Results
from cuesta.runtime.uniqueness_check import own
from cuesta.torch_private.tensors import storage_uses

Tensor = torch.Tensor


class FakeRecorder:
    """Runs what is recorded once more at every replay, into the memory that it had when it was recorded."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.returned: Counter[int] = Counter()
        self.blocks: dict[int, tuple[Block, Results]] = {}
        self.recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
        self.held: set[Results] = set()
        self.pools: list[Pool] = []
        self.buffers: list[bytearray] = []  # memory of results and copies: freed only with the recorder, as a device's
        self.shared: list[Range] = []  # the memory that replays of later recordings may overwrite
        self.busy = False
        self.replays = 0
        self.error: Exception | None = None

    def open_pool(self, with_lent: bool = True) -> Pool:
        found = next((pool for pool in self.pools if pool.is_open() and (with_lent or not pool.lent)), None)
        if found is None:
            self.pools.append(found := Pool(len(self.pools)))
        return found

    def record(
        self, run: Callable[[list[Tensor]], list[Tensor]], pool: Pool, given: Sequence[Tensor]
    ) -> tuple[Callable[[], None], list[Tensor], list[Tensor]]:
        if self.error is not None:
            raise self.error
        copies = [self._copy(t) for t in given]
        arguments = _arguments_of(run)
        kept = [flat_view(t).clone() for t in arguments]
        places = [_by_address(t) for t in arguments]
        results = self._placed(run(list(copies)), [*places, *copies])
        memory = [_by_address(r) for r in results]
        for result in results:
            if all(result.data_ptr() != copy.data_ptr() for copy in copies):
                result.fill_(-1)
        for argument, value in zip(places, kept, strict=True):
            flat_view(argument).copy_(value)  # as if nothing had run
        copies = [_by_address(copy) for copy in copies]

        def replay() -> None:
            self.replays += 1
            arguments[:] = places
            for target, value in zip(memory, run(list(copies)), strict=True):
                if target.data_ptr() != value.data_ptr():
                    target.copy_(value)
            arguments.clear()

        return replay, results, copies

    def copy(self, places: Sequence[tuple[int, int]], sources: Sequence[int]) -> None:
        for (place, nbytes), source in zip(places, sources, strict=True):
            ctypes.memmove(place, source, nbytes)

    def _copy(self, tensor: Tensor) -> Tensor:
        """A copy in memory of the recorder."""
        values = flat_view(tensor)
        self.buffers.append(bytearray(values.nbytes))
        memory = torch.frombuffer(self.buffers[-1], dtype=tensor.dtype)
        return memory.copy_(values).as_strided(tensor.shape, tensor.stride())

    def _placed(self, results: list[Tensor], arguments: list[Tensor]) -> list[Tensor]:
        """The results, those that are no arguments in memory of the recorder."""
        addresses = {t.data_ptr() for t in arguments}
        storages: dict[int, Any] = {}
        placed: dict[int, Tensor] = {}
        for result in results:
            key = result.untyped_storage().data_ptr()
            if key in addresses or not result.numel():
                placed[id(result)] = result
                continue
            if key not in storages:
                self.buffers.append(bytearray(result.untyped_storage().nbytes()))
                storages[key] = torch.frombuffer(self.buffers[-1], dtype=torch.uint8).untyped_storage()
            place = result.storage_offset(), result.shape, result.stride()
            placed[id(result)] = torch.empty(0, dtype=result.dtype).set_(storages[key], *place).copy_(result)
        return [placed[id(result)] for result in results]

    def memory(self, pool: Pool) -> list[Range]:
        return self.shared

    def is_busy(self) -> bool:
        return self.busy

    def follow(self) -> None:
        return


def _arguments_of(run: Callable[[list[Tensor]], list[Tensor]]) -> list[Tensor]:
    """The list that `run` hands to its program."""
    found: list[Tensor] = inspect.getclosurevars(run).nonlocals["arguments"]
    return found


def _by_address(tensor: Tensor) -> Tensor:
    """The tensor's memory as a graph of a device refers to it: nothing is kept alive."""
    if not tensor.numel():
        return tensor
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    memory = (ctypes.c_char * (extent * tensor.itemsize)).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())


def takes_all(tensors: list[torch.Tensor]) -> bool:
    return True


def describe(*results: dict[str, Any], **arguments: tuple[int, ...]) -> dict[str, Any]:
    """A program's description. `arguments` are numbers of those that it mutates, those lent, released and not read."""
    numbers = {key: list(arguments.get(key, ())) for key in ("mutates", "lent", "released", "unread")}
    return {"results": list(results), **numbers}


BASE = {"kind": "base", "index": 0, "whole": True}


class Counted:
    """x and w to x * w, and how often it ran as it is."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        self.runs += 1
        return [tensors[0] * tensors[1]]


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


W = torch.tensor([1.0, 2, 3])


#: Every argument that `x` has made, so that no two have the same address.
_MADE: list[Tensor] = []


def x(n: float) -> Tensor:
    _MADE.append(torch.full((3,), n))
    return _MADE[-1]


def test_the_first_call_runs_the_second_records_the_third_replays(recorder: FakeRecorder) -> None:
    heard: list[str] = []
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, heard.append)
    for n in range(1, 5):
        torch.testing.assert_close(run([x(n), W]), [x(n) * W])
        assert recorder.replays == max(n - 1, 0)
    assert heard == ["recorded"]


def test_a_result_that_is_held_keeps_its_value(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    held = [run([x(n), W])[0] for n in range(6)]
    for n, result in enumerate(held):
        torch.testing.assert_close(result, x(n) * W)
    assert recorder.replays == 5


@pytest.mark.parametrize("saved", [(), (0,)])
def test_a_lent_result_is_overwritten_where_it_is_unless_somebody_holds_it(
    recorder: FakeRecorder, saved: tuple[int, ...]
) -> None:
    copies = 0

    def doubled(tensors: list[Tensor]) -> list[Tensor]:
        nonlocal copies
        address = tensors[0].data_ptr()
        own(tensors, 0, tensors[0].nbytes)
        copies += tensors[0].data_ptr() != address
        return overwrites(tensors)

    def overwrites(tensors: list[Tensor]) -> list[Tensor]:
        return [tensors[0].mul_(2) + 1]

    forward = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, saved=saved)
    description = describe(BASE, lent=(0,))
    backward = RecordedProgram(doubled, description, set(), recorder, takes_all, overwrites=overwrites)
    for n in range(5):
        results = forward([x(n), W])
        torch.testing.assert_close(backward([results.pop()]), [x(n) * W * 2 + 1])
    assert (recorder.replays, copies) == (8, 0), "the first call of each runs as it is"
    (held,) = forward([x(7), W])
    torch.testing.assert_close(backward([held]), [x(7) * W * 2 + 1])
    torch.testing.assert_close(held, x(7) * W)
    assert (recorder.replays, copies) == (9, 1), "the call of which an argument is held runs as it is, on a copy"


def test_a_saved_result_is_the_same_tensor_until_somebody_holds_it(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, saved=(0,))
    tensors = [id(run([x(n), W])[0]) for n in range(4)]
    assert len({*tensors[1:]}) == 1, "a recording's"
    held: list[Tensor] = []
    for n in range(4):
        held += run([x(n), W])
        for m, result in enumerate(held):
            torch.testing.assert_close(result, x(m) * W)
    assert len({*map(id, held)}) == 4
    assert recorder.replays == 7, "held results are moved, or another recording is made"


@pytest.mark.parametrize("hold", [lambda t: t[1:], lambda t: t.detach()])
def test_what_others_hold_of_a_saved_result_keeps_its_value(
    recorder: FakeRecorder, hold: Callable[[Tensor], Tensor]
) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, saved=(0,))
    held = [hold(run([x(n), W])[0]) for n in range(6)]
    for n, view in enumerate(held):
        torch.testing.assert_close(view, hold(x(n) * W))


def test_autograd_holds_a_saved_result(recorder: FakeRecorder) -> None:
    """Autograd's hold is one in C++: Python's counts do not show it."""
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, saved=(0,))

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor, n: int) -> Tensor:
            ctx.save_for_backward(*run([x(n), W]))
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            return gradient * ctx.saved_tensors[0], None

    for steps in (1, 1, 3, 1):
        values = [torch.ones(3, requires_grad=True) for _ in range(steps)]
        results = [Saves.apply(value, n + 1) for n, value in enumerate(values)]  # type: ignore[no-untyped-call]
        for n, (value, result) in enumerate(zip(values, results, strict=True)):
            result.sum().backward()
            torch.testing.assert_close(value.grad, x(n + 1) * W)
    assert recorder.replays >= 3


def test_a_view_of_a_result_keeps_its_value(recorder: FakeRecorder) -> None:
    program = Counted()
    heard: list[str] = []
    run = RecordedProgram(program, describe(BASE), {1}, recorder, takes_all, heard.append)
    held = [run([x(n), W])[0][1:] for n in range(6)]
    for n, view in enumerate(held):
        torch.testing.assert_close(view, (x(n) * W)[1:])
    assert recorder.replays == 1, "the others ran as they are"
    assert heard[-1].startswith("recorded; 4 calls ran without the recording")


def test_what_autograd_has_saved_keeps_its_value(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    run([x(0), W])
    p = torch.ones(3, requires_grad=True)
    losses = [(run([x(n), W])[0] * p).sum() for n in range(1, 4)]
    for n, loss in enumerate(losses, 1):
        p.grad = None
        loss.backward()
        torch.testing.assert_close(p.grad, x(n) * W)


def test_each_layer_that_calls_a_program_has_a_recording(recorder: FakeRecorder) -> None:
    program = Counted()
    run = RecordedProgram(program, describe(BASE), {1}, recorder, takes_all)
    layers = [W + i for i in range(10)]
    for step in range(5):
        hidden, expected = x(step), x(step)
        for weight in layers:
            (hidden,), expected = run([hidden, weight]), expected * weight
        torch.testing.assert_close(hidden, expected)
        if step == 2:
            # The first step runs as it is. The second makes a recording for each layer.
            assert len(recorder.recordings) == len(layers)
            program.runs = 0
    assert program.runs == recorder.replays - 2 * len(layers) == 2 * len(layers), "a replay of the stand-in runs once"
    assert len(recorder.recordings) == len(layers)
    # Each layer but the first reads its input where the one before has written it.
    assert sorted(len(recording.copied) for recording in recorder.recordings) == [0] * 9 + [1]


def test_a_program_that_is_recorded_too_often_runs_as_it_is(
    recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "MOST_RECORDINGS", 3)
    heard: list[str] = []
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, heard.append)
    weights = [W + i for i in range(5)]
    for w in weights:
        torch.testing.assert_close(run([x(2), w]), [x(2) * w])
        torch.testing.assert_close(run([x(3), w]), [x(3) * w])
    assert heard[-1] == "not recorded: it was recorded 3 times"
    gc.collect()
    assert not recorder.recordings


def test_parameters_that_move_in_every_call_are_not_recorded(
    recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "MOST_ADDRESSES", 4)
    heard: list[str] = []
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, heard.append)
    kept = [W + i for i in range(6)]  # so that no address is used again
    for w in kept:
        torch.testing.assert_close(run([x(2), w]), [x(2) * w])
    assert heard == ["not recorded: parameters moved 4 times"]


def test_recordings_of_parameters_that_are_gone_are_dropped(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(3):
        weight = torch.full((2**n * 1000,), 2.0)  # another size, so that it is elsewhere
        given = torch.ones_like(weight)
        for _ in range(3):
            torch.testing.assert_close(run([given, weight]), [given * weight])
        gc.collect()
        assert len(recorder.recordings) == 1


def test_a_program_called_twice_before_its_results_are_given_back_has_two_recordings(recorder: FakeRecorder) -> None:
    program = Counted()
    run = RecordedProgram(program, describe(BASE), {1}, recorder, takes_all)
    p = torch.ones(3, requires_grad=True)
    for step in range(1, 7):
        p.grad = None
        # Autograd saves both results until the backward pass.
        loss = sum((run([x(step + k), W])[0] * p).sum() for k in range(2))
        assert isinstance(loss, Tensor)
        loss.backward()
        torch.testing.assert_close(p.grad, x(2 * step + 1) * W)
        del loss
        gc.collect()
    assert len(recorder.recordings) == 2
    recorder.replays = program.runs = 0
    (run([x(1), W])[0] * p).sum().backward()
    assert recorder.replays == program.runs == 1


def test_a_result_is_not_overwritten_by_a_recording_made_before(recorder: FakeRecorder) -> None:
    """What a replay writes in between may be where a later recording has its results."""
    later: list[Tensor] = []

    def writes_in_between(tensors: list[Tensor]) -> list[Tensor]:
        for memory in later:
            memory.fill_(-1)
        return [tensors[0] * tensors[1]]

    first = RecordedProgram(writes_in_between, describe(BASE), {1}, recorder, takes_all)
    second = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    recorder.shared = [(0, 2**63)]
    first([x(1), W])
    first([x(1), W])
    recorder.shared = []
    second([x(1), W])
    (held,) = second([x(2), W])
    later.append(_by_address(held.detach()))
    torch.testing.assert_close(first([x(3), W]), [x(3) * W])
    torch.testing.assert_close(held, x(2) * W)
    # What cannot be moved is not overwritten either: the first one is recorded anew.
    view = second([x(4), W])[0][1:]
    held = later.pop()
    torch.testing.assert_close(first([x(5), W]), [x(5) * W])
    torch.testing.assert_close(view, (x(4) * W)[1:])
    assert not any(recording.overlaid for recording in recorder.recordings)


def test_a_parameter_is_read_where_it_is(recorder: FakeRecorder) -> None:
    weight = W.clone()
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(4):
        weight.add_(1)
        torch.testing.assert_close(run([x(n), weight]), [x(n) * weight])
    assert recorder.replays == 3


def test_an_argument_that_is_not_read_is_not_copied(recorder: FakeRecorder) -> None:
    program = RecordedProgram(Counted(), describe(BASE, unread=(2,)), (), recorder, takes_all)
    for n in range(4):
        torch.testing.assert_close(program([x(n), x(2), x(7)]), [x(n) * 2])
    assert [list(recording.copied) for recording in recorder.recordings] == [[0, 1]]


def test_an_argument_that_stays_where_it_was_is_not_copied(recorder: FakeRecorder) -> None:
    batch = x(0)
    program = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(4):
        torch.testing.assert_close(program([batch.fill_(n), W]), [x(n) * W])
    assert [list(recording.copied) for recording in recorder.recordings] == [[]]


def test_an_argument_that_stayed_for_two_calls_is_copied_once_it_moves(recorder: FakeRecorder) -> None:
    first, run = x(0), Counted()
    program = RecordedProgram(run, describe(BASE), {1}, recorder, takes_all)
    for n in range(3):
        program([first.fill_(n), W])
    recorder.replays = 0
    for n in range(3):
        torch.testing.assert_close(program([x(n), W]), [x(n) * W])
        torch.testing.assert_close(program([first.fill_(7), W]), [x(7) * W])
    assert recorder.replays == 6
    assert [list(recording.copied) for recording in recorder.recordings] == [[0]]


def test_an_argument_that_is_only_where_the_last_one_was_is_copied(recorder: FakeRecorder) -> None:
    """torch's allocator may put it elsewhere as soon as other programs are recorded."""
    memory = bytearray(x(0).nbytes)
    program = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(4):
        argument = torch.frombuffer(memory, dtype=x(0).dtype).reshape(x(0).shape).fill_(n)
        torch.testing.assert_close(program([argument, W]), [x(n) * W])
    assert [list(recording.copied) for recording in recorder.recordings] == [[0]]


def test_layers_that_take_turns_look_at_one_recording_each(
    recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = [RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all) for _ in range(4)]
    reader = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    looked: list[Recording] = []
    misplaced = Recording.misplaced

    def note(recording: Recording, tensors: Sequence[Tensor]) -> list[int]:
        looked.append(recording)
        return misplaced(recording, tensors)

    monkeypatch.setattr(Recording, "misplaced", note)
    for n in range(5):
        looked.clear()
        for layer in layers:
            torch.testing.assert_close(reader([*layer([x(n), W]), W]), [x(n) * W * W])
    assert len(looked) == 2 * len(layers) and len(set(looked)) == len(looked)


@pytest.mark.parametrize("written", ["mutates", "lent", "released"])
def test_an_argument_that_is_written_is_copied_though_it_stays(recorder: FakeRecorder, written: str) -> None:
    batch = x(0)
    described = describe(BASE, **{written: (0,)})
    program = RecordedProgram(Counted(), described, {1}, recorder, takes_all)
    for n in range(4):
        program([batch.fill_(n), W])
    assert [list(recording.copied) for recording in recorder.recordings] == [[0]]


def test_results_of_one_recording_are_read_by_another_where_they_are(recorder: FakeRecorder) -> None:
    first = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    second = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(5):
        torch.testing.assert_close(second([first([x(n), W])[0], W]), [x(n) * W * W])
    assert recorder.replays == 8
    # The second one was recorded with the first one's memory as its argument, so any other goes as it is, until
    # others have become the rule.
    for n in range(STRAY_CALLS):
        torch.testing.assert_close(second([x(n), W]), [x(n) * W])
    assert recorder.replays == 8
    for n in range(3):
        torch.testing.assert_close(second([x(n), W]), [x(n) * W])
    assert recorder.replays == 11


def test_memory_of_a_recording_that_is_gone_is_nobodys(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    run([x(1), W])
    run([x(2), W])
    assert len(recorder.returned) == 1
    del run
    gc.collect()
    assert not recorder.returned


def test_written_arguments_are_written(recorder: FakeRecorder) -> None:
    def program(tensors: list[Tensor]) -> list[Tensor]:
        tensors[0].add_(1)
        tensors[1].mul_(2)
        return [tensors[0], tensors[1].view(-1)[1:], tensors[0] + tensors[1]]

    argument = {"kind": "argument", "index": 0, "whole": True}
    part = {"kind": "argument", "index": 1, "whole": False, "sizes": [2], "strides": [1], "offset": 1, "dtype": "f32"}
    static = torch.ones(3)
    run = RecordedProgram(program, describe(argument, part, BASE, mutates=(0, 1)), {1}, recorder, takes_all)
    expected = torch.ones(3)
    for n in range(4):
        given = x(n)
        results = run([given, static])
        expected = expected * 2
        assert results[0] is given
        assert results[1].data_ptr() == static.data_ptr() + 4
        torch.testing.assert_close([given, static, results[2]], [x(n + 1), expected, x(n + 1) + expected])


def test_arguments_with_gaps_and_overlaps(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), (), recorder, takes_all)
    for n in range(4):
        wide, one = torch.arange(12.0).view(3, 4)[:, ::2] + 0, torch.full((1, 2), float(n)).expand(3, 2)
        gaps = torch.arange(12.0).view(3, 4)[:, ::2]
        torch.testing.assert_close(run([gaps, one]), [wide * one])
    assert recorder.replays == 3


def test_an_error_while_recording_leaves_the_program_as_it_is(recorder: FakeRecorder) -> None:
    heard: list[str] = []
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, heard.append)
    recorder.error = RuntimeError("operation not permitted when stream is capturing\nand more")
    for n in range(4):
        torch.testing.assert_close(run([x(n), W]), [x(n) * W])
    assert heard == ["not recorded: operation not permitted when stream is capturing"]


def test_a_recording_that_finds_no_memory_leaves_the_call_to_the_program(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    recorder.error = torch.OutOfMemoryError("no memory for a graph")
    for n in range(4):
        torch.testing.assert_close(run([x(n), W]), [x(n) * W])


def test_inside_a_recording_of_the_user_it_runs_as_it_is(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    recorder.busy = True
    for n in range(4):
        torch.testing.assert_close(run([x(n), W]), [x(n) * W])
    assert recorder.replays == 0


def test_results_that_nobody_holds_cost_no_copy(recorder: FakeRecorder) -> None:
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    run([x(0), W])
    places = set()
    for n in range(1, 5):
        places.add(run([x(n), W])[0].data_ptr())
        gc.collect()
    assert len(places) == 1


def test_a_result_given_twice_is_one_tensor(recorder: FakeRecorder) -> None:
    def twice(tensors: list[Tensor]) -> list[Tensor]:
        product = tensors[0] * tensors[1]
        return [product, product]

    run = RecordedProgram(twice, describe(BASE, BASE), {1}, recorder, takes_all)
    for n in range(3):
        one, other = run([x(n), W])
        assert one is other
        torch.testing.assert_close(one, x(n) * W)


class Pair:
    """A forward program that saves two tensors, and a backward program that frees them once it has read them, as the
    recorder's device sees them. `step` is a training step, which gives the gradients."""

    def __init__(self, recorder: FakeRecorder) -> None:
        self.recorder = recorder
        self.freed: list[bool] = []
        self.outcomes: list[str] = []
        base = [BASE | {"index": i} for i in range(3)]
        self.forward = RecordedProgram(self._save, describe(*base), {1}, recorder, takes_all, saved=(1, 2))
        self.backward = RecordedProgram(
            self._free, describe(*base[:2], released=(0, 1)), set(), recorder, takes_all, self.outcomes.append
        )

    def _save(self, tensors: list[Tensor]) -> list[Tensor]:
        a, w = tensors
        return [(a * w).sum(), a * 2, w + a]

    def _free(self, tensors: list[Tensor]) -> list[Tensor]:
        results = [tensors[0] + 1, tensors[0] * tensors[1]]
        memory = [StorageWeakRef(t.untyped_storage()) for t in tensors]
        tensors[:] = [torch.empty(0)] * 2
        self.freed.append(all(ref.expired() for ref in memory))
        return results

    def step(self, n: float, hold: Callable[[Tensor], Any] = lambda t: None) -> tuple[list[Tensor], list[Any]]:
        results = self.forward([x(n), W])
        held = [hold(saved) for saved in results[1:]]
        arguments = [results.pop(1), results.pop(1)]
        return self.backward(arguments), held

    def lent(self) -> int:
        return sum(len(recording.taken) for recording in self.recorder.recordings)


def gradients(n: float) -> list[Tensor]:
    return [x(n) * 2 + 1, x(n) * 2 * (W + x(n))]


def test_a_backward_recording_takes_over_what_was_saved(recorder: FakeRecorder) -> None:
    pair = Pair(recorder)
    for n in range(6):
        torch.testing.assert_close(pair.step(n)[0], gradients(n))
    assert pair.freed[1], "while the backward program is recorded, nobody else keeps its arguments' memory"
    assert (pair.lent(), recorder.replays) == (2, 10)
    assert len(recorder.pools) == 1


@pytest.mark.parametrize("hold", [lambda t: t, lambda t: t[1:], lambda t: t.detach()])
def test_what_somebody_holds_is_not_taken_over(recorder: FakeRecorder, hold: Callable[[Tensor], Tensor]) -> None:
    pair = Pair(recorder)
    kept: dict[int, list[Tensor]] = {}
    for n in range(8):
        results, held = pair.step(n, hold if n in (4, 5) else lambda t: None)
        torch.testing.assert_close(results, gradients(n))
        kept[n] = held
    for n in (4, 5):
        torch.testing.assert_close(kept[n], [hold(x(n) * 2), hold(W + x(n))])
    assert pair.lent() == 0, "from then on the arguments stay the forward recording's"
    assert pair.outcomes[-1] == "recorded"


def test_two_forwards_before_their_backwards(recorder: FakeRecorder) -> None:
    """Saved results in lent memory are in use while others are recorded: these get memory of another pool."""
    pair = Pair(recorder)
    for n in range(3):
        pair.step(n)
    for n in range(4):
        first, second = pair.forward([x(n), W]), pair.forward([x(n + 1), W])
        for k, saved in ((n + 1, second), (n, first)):
            arguments = [saved.pop(1), saved.pop(1)]
            torch.testing.assert_close(pair.backward(arguments), gradients(k))
    for n in range(3):
        torch.testing.assert_close(pair.step(n)[0], gradients(n))


def test_results_that_are_held_when_the_arguments_are_written_again(recorder: FakeRecorder) -> None:
    """Gradients that are added up over steps, or freed only after the next forward."""
    pair = Pair(recorder)
    recorder.shared = [(0, 1 << 62)]  # all results may lie in what was lent
    before: list[Tensor] = []
    for n in range(8):
        saved = pair.forward([x(n), W])
        if n:
            torch.testing.assert_close(before, gradients(n - 1))
        arguments = [saved.pop(1), saved.pop(1)]
        before = pair.backward(arguments)
    assert pair.lent() == 0
    torch.testing.assert_close(before, gradients(7))


def test_lent_memory_outlives_its_recording_where_somebody_holds_it(recorder: FakeRecorder) -> None:
    pair = Pair(recorder)
    for n in range(3):
        pair.step(n)
    held = pair.forward([x(5), W])[1]
    (block,) = [b for b in recorder.pools[0].lent if b.lasting is held]
    recorder.pools[0].graphs.add(graph := type("Graph", (), {})())
    pair.forward._recordings.clear()
    gc.collect()
    assert block.graphs == [graph] and not recorder.pools[0].is_open()
    torch.testing.assert_close(held, x(5) * 2)
    del held
    assert recorder.pools[0].is_open() and block not in recorder.pools[0].lent


def test_autograd_saves_the_copy_of_an_argument(recorder: FakeRecorder) -> None:
    """The backward graph's recording reads it there, and copies nothing. What is not read is not copied, and passed as
    it is."""
    read: list[int] = []

    def multiply(tensors: list[Tensor]) -> list[Tensor]:
        read.append(tensors[0].data_ptr())
        return [tensors[0] * tensors[1]]

    forward = RecordedProgram(Counted(), describe(BASE, unread=(2,)), {1}, recorder, takes_all, passed=(0, 2))
    backward = RecordedProgram(multiply, describe(BASE), set(), recorder, takes_all)
    unread = x(9)
    for n in range(5):
        results = forward([x(n), W, unread])
        torch.testing.assert_close(results[:2], [x(n) * W, x(n)])
        assert results.pop() is unread
        torch.testing.assert_close(backward([results.pop(), results.pop()]), [x(n) * x(n) * W])
    assert len({*read[2:]}) == 1
    assert sorted(len(recording.copied) for recording in recorder.recordings) == [0, 1]


def test_a_saved_copy_that_is_held_keeps_its_value(recorder: FakeRecorder) -> None:
    forward = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, passed=(0,))
    held = [forward([x(n), W])[1] for n in range(6)]
    torch.testing.assert_close(held, [x(n) for n in range(6)])
    assert recorder.replays == 5


class Chain:
    """Two programs, the second of which reads what the first returns. `step` gives the second's result."""

    def __init__(self, recorder: FakeRecorder) -> None:
        self.recorder = recorder
        self.memory: list[StorageWeakRef] = []  # what the second program's runs read
        self.first = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
        self.second = RecordedProgram(self._read, describe(BASE), set(), recorder, takes_all)

    def _read(self, tensors: list[Tensor]) -> list[Tensor]:
        self.memory += [StorageWeakRef(t.untyped_storage()) for t in tensors]
        return [tensors[0] + 1]

    def step(self, n: float, hold: Callable[[Tensor], Any] = lambda t: None) -> tuple[Tensor, Any]:
        results = self.first([x(n), W])
        held = hold(results[0])
        (result,) = self.second([results.pop()])
        return result, held

    def lent(self) -> list[Block]:
        return [block for pool in self.recorder.pools for block in pool.lent]


def test_what_passes_between_graphs_is_left_to_later_recordings(recorder: FakeRecorder) -> None:
    chain = Chain(recorder)
    for n in range(2):
        chain.step(n)
    assert len(chain.lent()) == 1
    assert chain.memory[1].expired(), "nobody keeps it: the allocator may hand it out"
    for n in range(2, 6):
        torch.testing.assert_close(chain.step(n)[0], x(n) * W + 1)
    assert (recorder.replays, len(recorder.pools)) == (10, 1)


def test_what_somebody_holds_between_graphs_is_kept(recorder: FakeRecorder) -> None:
    chain = Chain(recorder)
    kept = [chain.step(n, lambda t: t)[1] for n in range(4)]
    assert not chain.lent()
    torch.testing.assert_close(kept, [x(n) * W for n in range(4)])


@pytest.mark.parametrize("hold", [lambda t: t, lambda t: t[1:]])
def test_what_is_held_in_lent_memory_keeps_its_value(recorder: FakeRecorder, hold: Callable[[Tensor], Tensor]) -> None:
    """A later recording lies there. Its replay moves what is held. Where that cannot be moved, it is recorded anew."""
    chain = Chain(recorder)
    recorder.shared = [(0, 1 << 62)]
    later = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    held: list[Tensor] = []
    for n in range(8):
        result, kept = chain.step(n, hold if n in (4, 5) else lambda t: None)
        torch.testing.assert_close(result, x(n) * W + 1)
        torch.testing.assert_close(later([x(n), W])[0], x(n) * W)
        if kept is not None:
            held.append(kept)
    lent = {block.owners[0].data_ptr() for block in chain.lent()}
    for n, kept in zip((4, 5), held, strict=True):
        assert kept._base is not None or kept.data_ptr() not in lent, "it was moved"
        torch.testing.assert_close(kept, hold(x(n) * W))


def test_results_in_lent_memory_that_are_always_held(recorder: FakeRecorder) -> None:
    """They are moved a few times. Then they get memory of their own."""
    chain = Chain(recorder)
    recorder.shared = [(0, 1 << 62)]
    later = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    before: Tensor | None = None
    for n in range(8):
        saved = chain.first([x(n), W])
        if before is not None:
            torch.testing.assert_close(before, x(n - 1) * W)
        chain.second([saved.pop()])
        (before,) = later([x(n), W])
    assert not any(r.lies_in_lent for r in recorder.recordings if r in later._recordings[(W.data_ptr(),)])


def test_each_result_is_looked_at_once_after_its_replay(
    recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of many layers has many recordings, each of which overwrites results of all that were made later."""
    recorder.shared = [(0, 1 << 62)]
    programs = [RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all) for _ in range(20)]
    for n in range(4):
        for run in programs:
            run([x(n), W])
    looks = 0

    def counted(key: int) -> int:
        nonlocal looks
        looks += 1
        return storage_uses(key)

    monkeypatch.setattr(results, "_uses", counted)
    for run in programs:
        torch.testing.assert_close(run([x(7), W]), [x(7) * W])
    assert looks <= 3 * len(programs)
