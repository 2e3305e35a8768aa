"""Runs random training loops of recorded programs on a simulated device, and checks that no value is overwritten while
somebody holds it.

The device's allocator reuses memory as soon as no tensor holds it. As with CUDA graphs, a replay writes to the
addresses of its recording. For each value the test computes a second one in other memory, without recordings.
"""

from __future__ import annotations

import ctypes
import random
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from cuesta.runtime.cuda.cuda_graphs import RecordedProgram
from cuesta.runtime.cuda.recording import Recording
from cuesta.runtime.cuda.results import Block, Pool, Range, Results
from cuesta.torch_private.tensors import without_memory

Tensor = torch.Tensor
Arithmetic = Callable[..., Tensor]


class Arena:
    """The memory of a pool. Its allocator takes the first gap that is large enough."""

    BYTES = 1 << 16

    def __init__(self) -> None:
        self._memory = (ctypes.c_char * self.BYTES)()
        self.begin = ctypes.addressof(self._memory)
        self.used: dict[int, int] = {}  # offset → bytes
        self.most = 0

    def tensor(self, count: int) -> Tensor:
        """A tensor of f64 whose memory is free as soon as no tensor over it is left."""
        nbytes, offset = 8 * count, 0
        for start, size in sorted(self.used.items()):
            if start - offset >= nbytes:
                break
            offset = start + size
        assert offset + nbytes <= self.BYTES
        self.used[offset] = nbytes
        self.most = max(self.most, offset + nbytes)
        memory = (ctypes.c_char * nbytes).from_address(self.begin + offset)
        weakref.finalize(memory, self.used.pop, offset)
        return torch.frombuffer(memory, dtype=torch.float64)


class Device:
    """Computes at once. While a recording is being made, notes what its replays are to compute instead."""

    def __init__(self) -> None:
        self.arena: Arena | None = None  # of the recording that is being made
        self.noted: list[Callable[[], None]] = []

    def compute(self, arithmetic: Arithmetic, *operands: Tensor) -> Tensor:
        if self.arena is None:
            return arithmetic(*operands)
        result = self.arena.tensor(max(operand.numel() for operand in operands))
        place, *read = [without_memory(tensor) for tensor in (result, *operands)]

        def again() -> None:
            place.copy_(arithmetic(*read))

        self.noted.append(again)
        return result

    @contextmanager
    def recording(self, arena: Arena) -> Iterator[list[Callable[[], None]]]:
        self.arena, self.noted = arena, []
        try:
            yield self.noted
        finally:
            self.arena = None


class Recorder:
    """The recorder of the simulated device."""

    def __init__(self, device: Device) -> None:
        self.lock = threading.RLock()
        self.returned: Counter[int] = Counter()
        self.blocks: dict[int, tuple[Block, Results]] = {}
        self.recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
        self.held: set[Results] = set()
        self.device, self.pools, self.replays = device, list[Pool](), 0

    def open_pool(self, with_lent: bool = True) -> Pool:
        found = next((pool for pool in self.pools if pool.is_open() and (with_lent or not pool.lent)), None)
        if found is None:
            self.pools.append(found := Pool(Arena()))
        return found

    def record(
        self, run: Callable[[list[Tensor]], list[Tensor]], pool: Pool, given: Sequence[Tensor]
    ) -> tuple[Callable[[], None], list[Tensor], list[Tensor]]:
        with self.device.recording(pool.handle) as noted:
            copies = [pool.handle.tensor(tensor.numel()) for tensor in given]
            places = [without_memory(copy) for copy in copies]
            results = run(copies)

        def replay() -> None:
            self.replays += 1
            for step in noted:
                step()

        return replay, results, places

    def copy(self, places: Sequence[tuple[int, int]], sources: Sequence[int]) -> None:
        for (place, nbytes), source in zip(places, sources, strict=True):
            ctypes.memmove(place, source, nbytes)

    def memory(self, pool: Pool) -> list[Range]:
        return [(pool.handle.begin, pool.handle.begin + pool.handle.most)]

    def is_busy(self) -> bool:
        return False

    def follow(self) -> None:
        return


def arithmetic(factor: int, other: int) -> Arithmetic:
    """Exact arithmetic on integers below 1009 whose result depends on every operand's first and last element."""

    def compute(first: Tensor, *rest: Tensor) -> Tensor:
        total = first * factor + other
        for operand in rest:
            total = total * 7 + operand[0] * 3 + operand[-1]
        return total % 1009

    return compute


@dataclass
class Value:
    """A tensor that a program returned, and the values that it has to have."""

    tensor: Tensor
    wanted: Tensor

    def check(self) -> None:
        torch.testing.assert_close(self.tensor, self.wanted, rtol=0, atol=0)


@dataclass
class Layers:
    """A forward and a backward program that all layers share."""

    forward: RecordedProgram
    backward: RecordedProgram
    parts: list[Arithmetic]

    @staticmethod
    def made(dice: random.Random, device: Device, recorder: Recorder) -> Layers:
        parts = [arithmetic(dice.randrange(2, 99), dice.randrange(99)) for _ in range(8)]
        compute, base = device.compute, [{"kind": "base", "index": i, "whole": True} for i in range(4)]

        def forward(tensors: list[Tensor]) -> list[Tensor]:
            hidden, weight = tensors
            inner = compute(parts[0], hidden, weight)
            extra = compute(parts[1], inner)
            saved = [compute(parts[2], inner, weight), compute(parts[3], hidden)]
            return [compute(parts[4], inner, hidden), extra, *saved]

        def backward(tensors: list[Tensor]) -> list[Tensor]:
            inner = compute(parts[5], tensors[0], tensors[2])
            outer = compute(parts[6], tensors[1], inner)
            tensors[0] = tensors[1] = None  # type: ignore[call-overload]
            return [compute(parts[7], outer, tensors[2]), compute(parts[0], inner, tensors[3])]

        def program(run: Any, count: int, static: int, released: Sequence[int], saved: Sequence[int]) -> Any:
            numbers = {"mutates": [], "lent": [], "released": list(released), "unread": []}
            described: Any = {"results": base[:count], **numbers}
            return RecordedProgram(run, described, {static}, recorder, lambda tensors: True, saved=saved)

        return Layers(program(forward, 4, 1, (), (2, 3)), program(backward, 2, 3, (0, 1), ()), parts)

    def run_forward(self, hidden: Value, weight: Value) -> list[Value]:
        results = self.forward([hidden.tensor, weight.tensor])
        inner = self.parts[0](hidden.wanted, weight.wanted)
        wanted = [self.parts[4](inner, hidden.wanted), self.parts[1](inner)]
        wanted += [self.parts[2](inner, weight.wanted), self.parts[3](hidden.wanted)]
        return [Value(r, w) for r, w in zip(results, wanted, strict=True)]

    def run_backward(self, saved: list[Value], gradient: Value, weight: Value) -> list[Value]:
        """Takes what was saved out of the list, as autograd does."""
        values = [value.wanted for value in saved]
        arguments = [*[saved.pop(0).tensor for _ in range(len(saved))], gradient.tensor, weight.tensor]
        results = self.backward(arguments)
        inner = self.parts[5](values[0], gradient.wanted)
        wanted = [self.parts[7](self.parts[6](values[1], inner), gradient.wanted), self.parts[0](inner, weight.wanted)]
        return [Value(r, w) for r, w in zip(results, wanted, strict=True)]


@dataclass
class Loop:
    """A random model and its training loop."""

    dice: random.Random
    device: Device = field(default_factory=Device)
    held: list[tuple[int, Value]] = field(default_factory=list)  # how many more calls somebody holds a value

    def __post_init__(self) -> None:
        dice = self.dice
        self.recorder = Recorder(self.device)
        self.kinds = [Layers.made(dice, self.device, self.recorder) for _ in range(dice.randrange(1, 4))]
        self.order = [dice.choice(self.kinds) for _ in range(dice.randrange(1, 6))]
        size = dice.choice([4, 16])
        self.weights = [self.value(dice.choice([4, size])) for _ in self.order]
        self.batch = self.value(size)
        self.same_batch = dice.random() < 0.5
        self.eager_between = dice.choice([0.0, 0.3, 1.0])
        self.holding = dice.choice([0.0, 0.0, 0.1, 0.4])
        self.gradients: list[Value] = []
        self.keeps_gradients = dice.random() < 0.3

    def value(self, size: int) -> Value:
        tensor = torch.tensor([float(self.dice.randrange(1009)) for _ in range(size)], dtype=torch.float64)
        return Value(tensor, tensor.clone())

    def hold(self, value: Value) -> None:
        """Perhaps keeps a value, or a view of it, for some calls."""
        if self.dice.random() < self.holding:
            view = self.dice.random() < 0.3
            kept = Value(value.tensor[1:], value.wanted[1:]) if view else value
            self.held.append((self.dice.randrange(1, 30), kept))

    def passed_on(self, value: Value) -> Value:
        """The value as the next program gets it: perhaps from eager."""
        value.check()
        self.hold(value)
        for _, kept in self.held:
            kept.check()
        self.held = [(calls - 1, kept) for calls, kept in self.held if calls > 1]
        if self.dice.random() < self.eager_between:
            return Value(value.tensor + 1, value.wanted + 1)
        return value

    def next_batch(self) -> Value:
        new = self.value(self.batch.tensor.numel())
        if not self.same_batch:
            return new
        self.batch.tensor.copy_(new.tensor)
        return Value(self.batch.tensor, new.wanted)

    def step(self) -> None:
        if not self.keeps_gradients:
            self.gradients.clear()
        hidden, saved = self.next_batch(), []
        for layers, weight in zip(self.order, self.weights, strict=True):
            hidden, extra, *kept = layers.run_forward(hidden, weight)
            for value in (extra, *kept):
                self.hold(value)
            saved.append(kept)
            del extra, kept, value
            hidden = self.passed_on(hidden)
        gradient, gradients = self.passed_on(hidden), []
        del hidden
        for layers, weight in zip(reversed(self.order), reversed(self.weights), strict=True):
            gradient, of_weight = layers.run_backward(saved.pop(), gradient, weight)
            gradients.append(of_weight)
            gradient = self.passed_on(gradient)
        for value in (*gradients, *self.gradients):
            value.check()
        self.gradients = gradients

    def evaluate(self) -> None:
        hidden = self.next_batch()
        for layers, weight in zip(self.order, self.weights, strict=True):
            hidden = self.passed_on(layers.run_forward(hidden, weight)[0])


@pytest.mark.parametrize("seed", range(30))
def test_no_value_changes_under_its_owner(seed: int) -> None:
    loop = Loop(random.Random(seed))
    for number in range(14):
        if loop.dice.random() < 0.15:
            loop.evaluate()
        loop.step()
        assert number < 2 or loop.recorder.replays


@pytest.mark.parametrize("eager_between", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(12))
def test_a_loop_without_surprises_is_recorded_in_its_second_step(seed: int, eager_between: float) -> None:
    loop = Loop(random.Random(seed))
    loop.holding, loop.keeps_gradients, loop.eager_between = 0.0, False, eager_between
    for number in range(6):
        loop.step()
        made = [*loop.recorder.recordings]
        if number == 1:
            first = made
    assert {*map(id, made)} == {*map(id, first)}
    assert len(made) == 2 * len(loop.order)
    assert loop.recorder.replays == 5 * len(made)


def test_results_that_were_dropped_are_left_to_later_recordings() -> None:
    loop = Loop(random.Random(0))
    loop.holding, loop.keeps_gradients, loop.eager_between = 0.0, False, 0.0
    loop.order, loop.batch = [loop.kinds[0]] * 10, loop.value(16)
    loop.weights = [loop.value(16) for _ in loop.order]
    for _ in range(4):
        loop.step()
    (pool,) = loop.recorder.pools
    tensors_at_once = 2 * len(loop.order) + 4  # what is saved, and what one program computes
    assert pool.handle.most <= tensors_at_once * 16 * torch.float64.itemsize
