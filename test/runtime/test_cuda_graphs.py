"""Recorded programs: which memory they read, write and hand out. A list of closures stands for the device's graph."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.runtime.arguments import flat_view
from cuesta.runtime.cuda.cuda_graphs import MOST_RECORDINGS, STRAY_CALLS, RecordedProgram

Tensor = torch.Tensor


class FakeRecorder:
    """Runs what is recorded once more at every replay, into the memory that it had when it was recorded."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.returned: set[int] = set()
        self.busy = False
        self.replays = 0
        self.error: Exception | None = None

    def record(self, run: Callable[[], list[Tensor]]) -> tuple[Callable[[], None], list[Tensor]]:
        if self.error is not None:
            raise self.error
        arguments = _arguments_of(run)
        kept = [flat_view(t).clone() for t in arguments]
        results = run()
        memory = [r.detach() for r in results]
        for result in results:
            result.fill_(-1)
        for argument, value in zip(arguments, kept, strict=True):
            flat_view(argument).copy_(value)  # as if nothing had run
        arguments[:] = [_by_address(t) for t in arguments]

        def replay() -> None:
            self.replays += 1
            for target, value in zip(memory, run(), strict=True):
                if target.data_ptr() != value.data_ptr():
                    target.copy_(value)

        return replay, results

    def is_busy(self) -> bool:
        return self.busy

    def follow(self) -> None:
        return


def _arguments_of(run: Callable[[], list[Tensor]]) -> list[Tensor]:
    """The list that `run` hands to its program."""
    (found,) = [c.cell_contents for c in run.__closure__ or () if isinstance(c.cell_contents, list)]
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


def describe(*results: dict[str, Any], mutates: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"results": list(results), "mutates": list(mutates)}


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


def x(n: float) -> Tensor:
    return torch.full((3,), n)


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


def test_a_parameter_that_moves_is_recorded_anew(recorder: FakeRecorder) -> None:
    heard: list[str] = []
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all, heard.append)
    weights = [W + i for i in range(MOST_RECORDINGS + 3)]
    for w in weights:
        torch.testing.assert_close(run([x(2), w]), [x(2) * w])
        torch.testing.assert_close(run([x(3), w]), [x(3) * w])
    assert heard[-1] == f"not recorded: parameters moved {MOST_RECORDINGS} times"


def test_a_parameter_is_read_where_it_is(recorder: FakeRecorder) -> None:
    weight = W.clone()
    run = RecordedProgram(Counted(), describe(BASE), {1}, recorder, takes_all)
    for n in range(4):
        weight.add_(1)
        torch.testing.assert_close(run([x(n), weight]), [x(n) * weight])
    assert recorder.replays == 3


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
