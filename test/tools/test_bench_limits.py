"""What cuesta-bench takes for a machine's limits, and for the least that a call must do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.bench.cases.workload import Workload
from cuesta.tools.bench.measuring.cost import Cost, cost_of
from cuesta.tools.bench.measuring.limits import Level, Limit, Limits, Meter, cache_sizes
from cuesta.tools.bench.measuring.loops import SCRATCH, SUMS, UNROLLED, Loops, make_loops
from cuesta.tools.bench.measuring.on_cpu import hold_to

MACHINE = Limits(
    (Level("L1", 1000, read=200, scale=100), Level("L2", 10_000, 100, 100), Level("memory", math.inf, 10, 5)), 50
)


def evaluated(function: Callable[..., Any], *arguments: Any) -> Cost:
    with torch.no_grad():
        return cost_of(Workload(function, arguments))


def trained(function: Callable[..., Any], parameters: tuple[Tensor, ...], *arguments: Any) -> Cost:
    with torch.enable_grad():
        return cost_of(Workload(function, arguments, parameters))


def test_inputs_and_results_count_once() -> None:
    x, y = torch.randn(10, 10), torch.randn(10, 10)
    assert evaluated(lambda x, y: (x * y + x).exp(), x, y) == Cost(800, 400, 1200, 0)
    assert evaluated(lambda x, y: x.t() @ y, x, y) == Cost(800, 400, 1200, 2000)


def test_of_a_view_counts_what_is_seen() -> None:
    x = torch.randn(100, 10)
    assert evaluated(lambda x: x[:10] + x[10:20], x).read == 800
    assert evaluated(lambda x: x[:10] + x[:10].sum() + x[:, :5].sum(), x).read == 400 + 2000
    assert evaluated(lambda x: x.view(10, 100), x) == Cost(0, 0, 0, 0)
    assert evaluated(lambda x: x.expand(7, 10) + 1, torch.randn(1, 10)).read == 40


def test_of_a_table_the_rows_that_are_taken_count() -> None:
    table = torch.randn(1000, 4)
    assert evaluated(F.embedding, torch.tensor([3, 3, 5]), table) == Cost(24 + 2 * 16, 3 * 16, 24 + 5 * 16, 0)
    assert evaluated(lambda t, i: t[i], table, torch.tensor([3, 5])).read == 16 + 2 * 16


def test_what_is_updated_in_place_is_written() -> None:
    assert evaluated(lambda x, y: x.add_(y).sum(), torch.zeros(10), torch.ones(10)) == Cost(80, 44, 84, 0)


def test_a_training_step_is_two_calls() -> None:
    """x [2, 3] → hidden [2, 5] → loss: the second product's gradient takes hidden, after gelu, which is kept."""
    first, second, x = torch.randn(5, 3, requires_grad=True), torch.randn(4, 5, requires_grad=True), torch.randn(2, 3)

    def loss(x: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(x, first)), second).sum()

    cost = trained(loss, (first, second), x)
    # The loss's own gradient, one number, is kept as well.
    kept, weights, data = 4 * 10 + 4, 4 * (15 + 20), 4 * 6
    # Forward: x, both weights; backward: x, the second weight, hidden.
    assert cost.read == (data + weights) + (data + 4 * 20) + kept
    assert cost.written == kept + weights + 4
    assert cost.footprint == data + 2 * weights + kept + 4
    # Two products forward; of the first the weight's gradient, of the second both.
    assert cost.operations == 2 * (2 * 3 * 5) * 2 + 2 * (2 * 5 * 4) * 3


def test_operations_of_a_convolution_in_groups() -> None:
    image, weight = torch.randn(2, 8, 6, 6), torch.randn(8, 1, 3, 3, requires_grad=True)
    forward = 2 * (2 * 8 * 4 * 4) * 9
    assert evaluated(lambda x: F.conv2d(x, weight, groups=8), image).operations == forward
    assert trained(lambda x: F.conv2d(x, weight, groups=8).sum(), (weight,), image).operations == 2 * forward


@pytest.mark.parametrize(("is_causal", "share"), [(False, 1.0), (True, 9 / 16)])
def test_operations_of_attention(is_causal: bool, share: float) -> None:
    q, k, v = (torch.randn(2, 3, 8, 4, requires_grad=True) for _ in range(3))
    full = 2 * 2 * (2 * 3 * 8 * 8 * 4)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    assert evaluated(attention, q, k, v).operations == full * share
    # Five products follow two.
    step = trained(lambda *x: attention(*x).sum(), (q, k, v), q, k, v)
    assert step.operations == pytest.approx(full * share * 3.5)


def test_an_lstm_is_its_products() -> None:
    lstm = nn.LSTM(8, 16)
    before = torch.backends.mkldnn.enabled
    cost = evaluated(lambda x: lstm(x)[0], torch.randn(5, 3, 8))
    assert cost.operations == 2 * 5 * 3 * 64 * (8 + 16)
    assert torch.backends.mkldnn.enabled == before


def test_the_later_of_two_is_the_limit() -> None:
    # 100 bytes a second each way in L2: a write costs as much as a read.
    assert MACHINE.of(Cost(1000, 1000, 2000, 0)) == Limit(20.0, "L2")
    assert MACHINE.of(Cost(1000, 1000, 2000, 2000)) == Limit(40.0, "FMA")
    # L1 reads 200 a second, and scales 100: 1/200 for a read, 3/200 for a write.
    assert MACHINE.of(Cost(200, 200, 400, 0)) == Limit(4.0, "L1")
    assert MACHINE.of(Cost(20_000, 0, 20_000, 0)) == Limit(2000.0, "memory")


def test_a_share_of_each_time() -> None:
    results: dict[str, Any] = {
        "a": {"times": {"inductor": [39.0, 40.0, 41.0], "cuesta": [25.0] * 3}, "cost": vars(Cost(1000, 1000, 2000, 0))},
        "b": {"times": {"cuesta": [1.0]}},
    }
    hold_to(MACHINE, results)
    assert results["a"]["limit"] == {"seconds": 20.0, "by": "L2"}
    assert results["a"]["of_limit"] == {"inductor": 0.5, "cuesta": 0.8}
    assert "of_limit" not in results["b"]


def test_limits_as_json_and_the_better_of_two() -> None:
    assert Limits.from_dict(MACHINE.as_dict()) == MACHINE
    other = Limits((Level("L1", 1000, 300, 50), *MACHINE.levels[1:]), 60)
    assert MACHINE.better(other) == Limits((Level("L1", 1000, 300, 100), *MACHINE.levels[1:]), 60)


def test_caches_of_as_many_cores_as_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu in range(4):
        levels = [
            ("1", "Data", "32K", f"{cpu}"),
            ("1", "Instruction", "64K", f"{cpu}"),
            ("2", "Unified", "1024K", "0-3"),
        ]
        for index, values in enumerate(levels):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
                (folder / name).write_text(value + "\n")
    assert cache_sizes(2, tmp_path) == {"L1": 2 * 32 << 10, "L2": 1 << 20}
    assert cache_sizes(8, tmp_path)["L1"] == 4 * 32 << 10
    assert cache_sizes(2, tmp_path / "none") == {}


class SlowMachine:
    """Loops that only let a clock go on: 1e9 bytes a second within 64 KiB, 1e8 beyond; writes take as long again, past
    the caches three quarters of that; 1e8 iterations a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def loops(self) -> Loops:
        def read(_scratch: int, _memory: int, size: int, count: int) -> None:
            self.now += count / self.rate(size)

        def scale(_out: int, _memory: int, size: int, count: int) -> None:
            self.now += 2 * count / self.rate(2 * size)

        def stream(_out: int, _memory: int, size: int, count: int) -> None:
            self.now += 1.75 * count / self.rate(2 * size)

        def multiply_add(_scratch: int, count: int) -> None:
            self.now += count / 1e8

        return Loops(multiply_add, read, scale, stream, operations=32, _code=None)  # type: ignore[arg-type]

    def rate(self, size: int) -> float:
        return 1e9 if size <= 64 << 10 else 1e8


def test_limits_are_measured() -> None:
    machine = SlowMachine()
    found = Meter(machine.loops(), 1, clock=lambda: machine.now).limits({"L1": 64 << 10, "L2": 1 << 20})
    assert found.operations == pytest.approx(32e8)
    assert [level.name for level in found.levels] == ["L1", "L2", "memory"]
    assert [level.capacity for level in found.levels] == [64 << 10, 1 << 20, math.inf]
    assert [level.read for level in found.levels] == pytest.approx([1e9, 1e8, 1e8])
    assert [level.scale for level in found.levels] == pytest.approx([8e9 / 7, 8e8 / 7, 8e8 / 7])


def test_the_memory_is_read_far_beyond_the_caches() -> None:
    read: list[int] = []
    loops = Loops(*[lambda *_: None] * 4, operations=1, _code=None)  # type: ignore[arg-type]
    loops = replace(loops, read=lambda _scratch, _memory, size, _count: read.append(size))
    ticks = iter(range(1000))
    for threads in (1, 2):
        Meter(loops, threads, clock=lambda: float(next(ticks))).memory_read({"L1": 1 << 15, "L3": 3 << 20})
    assert {64 << 20, 32 << 20} == set(read)  # the next powers of two


def test_two_threads_do_twice_as_much() -> None:
    ticks = iter(range(1000))
    loops = Loops(*[lambda *_: None] * 4, operations=1, _code=None)  # type: ignore[arg-type]
    # Every sample takes a second: one unit of each thread, of 32 KiB and of 1000 iterations.
    found = Meter(loops, 2, clock=lambda: float(next(ticks))).limits({"L1": 128 << 10})
    assert found.levels[0].read == 2 * 32 << 10
    assert found.operations == 2000


@pytest.fixture(scope="module")
def loops() -> Loops:
    return make_loops()


def aligned(count: int, value: float) -> Tensor:
    block = torch.full((count + 16,), value)
    start = -block.data_ptr() % 64 // 4
    return block[start : start + count]


def test_the_loops_do_what_they_say(loops: Loops) -> None:
    lanes = loops.operations // (2 * SUMS)
    scratch, memory, out = aligned(SCRATCH // 4, 3.0), aligned(1024, 2.0), aligned(1024, 0.0)
    loops.read(scratch.data_ptr(), memory.data_ptr(), 4096, 3 * 4096)
    assert scratch[: UNROLLED * lanes].sum() == 3.0 * UNROLLED * lanes + 3 * 2048
    for write in (loops.scale, loops.stream):
        out.zero_()
        write(out.data_ptr(), memory.data_ptr(), 2048, 4096)
        assert out[:512].eq(1.0).all()
        assert out[512:].eq(0.0).all()
    sums = aligned(SCRATCH // 4, 3.0)
    loops.multiply_add(sums.data_ptr(), 5)
    assert sums[: SUMS * lanes].eq(3.0 + 5 * 9.0).all()
