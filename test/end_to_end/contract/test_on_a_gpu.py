"""What only a GPU shows: streams, devices other than the current one, users' Triton kernels (contract, points 14, 15).

Each test is skipped on a machine without one. Streams are told apart by a long wait: what was launched elsewhere does
not see what is written after it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import cuesta

triton = pytest.importorskip("triton")
tl = triton.language

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

#: Cycles of a GPU's clock: some 50 ms, in which everything else of a test is queued.
LONG = 100_000_000


def mix(x: Tensor) -> Tensor:
    return torch.softmax(x.sin() * 2, -1) + x


def late_write(x: Tensor, value: float) -> None:
    """Writes to a tensor on the current stream, a good while from now."""
    torch.cuda._sleep(LONG)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        x.fill_(value)


# Streams and devices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_goes_to_the_current_stream(dynamic: bool, backend: str) -> None:
    compiled = torch.compile(mix, backend=backend, dynamic=dynamic)
    x = torch.zeros(256, 64, device="cuda")
    compiled(x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late_write(x, 0.25)
        y = compiled(x)
    assert not side.query(), "the wait was over before the call was"
    torch.cuda.current_stream().wait_stream(side)
    assert_close(y, mix(torch.full_like(x, 0.25)))


def test_so_does_a_training_step(backend: str) -> None:
    module = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).cuda()
    compiled = torch.compile(module, backend=backend)
    x = torch.zeros(256, 64, device="cuda", requires_grad=True)

    def gradient(run: Callable[[Tensor], Tensor]) -> Tensor:
        (found,) = torch.autograd.grad(run(x).square().sum(), x)
        return found

    gradient(compiled)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late_write(x, 0.25)
        actual = gradient(compiled)
    torch.cuda.current_stream().wait_stream(side)
    assert_close(actual, gradient(module), rtol=1e-4, atol=1e-4)  # TF32 is off; sums of 256 rows in another order


def test_recorded_calls_on_several_streams(cuesta_only: None) -> None:
    compiled = torch.compile(mix, backend="cuesta", mode="reduce-overhead")
    x = torch.zeros(256, 64, device="cuda")
    for _ in range(3):
        compiled(x)
    torch.cuda.synchronize()
    for value in (0.25, 0.5):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            late_write(x, value)
            y = compiled(x).clone()
        torch.cuda.current_stream().wait_stream(side)
        assert_close(y, mix(torch.full_like(x, value)))


def test_threads_with_streams_of_their_own(backend: str) -> None:
    compiled = torch.compile(mix, backend=backend)
    compiled(torch.zeros(256, 64, device="cuda"))
    torch.cuda.synchronize()

    def work(value: int) -> list[Tensor]:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros(256, 64, device="cuda")
            found = []
            for i in range(20):
                x.fill_(value + i / 32)
                found.append(compiled(x))
            torch.cuda.current_stream().synchronize()
        return found

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for value, found in enumerate(results):
        for i, y in enumerate(found):
            assert_close(y, mix(torch.full((256, 64), value + i / 32, device="cuda")))


def test_streams_inside_that_wait_for_one_another(backend: str) -> None:
    side = torch.cuda.Stream()

    def f(x: Tensor) -> Tensor:
        x = x * 2
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.softmax(x, -1)
        z = x.cos()
        torch.cuda.current_stream().wait_stream(side)
        return y + z

    compiled = torch.compile(f, backend=backend)
    x = torch.zeros(256, 64, device="cuda")
    compiled(x)
    torch.cuda.synchronize()
    late_write(x, 0.25)
    assert_close(compiled(x), f(torch.full_like(x, 0.25)))


def test_what_is_inside_a_stream_is_computed_on_it(backend: str) -> None:
    side = torch.cuda.Stream()

    def f(x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        with torch.cuda.stream(side):
            y = mix(x)
        return y, mix(other)

    compiled = torch.compile(f, backend=backend)
    x, other = torch.zeros(2, 256, 64, device="cuda")
    compiled(x, other)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late_write(x, 0.25)
    y, z = compiled(x, other)
    torch.cuda.current_stream().synchronize()
    assert not side.query(), "the stream of the call waited for the other one"
    assert_close(z, mix(other))
    side.synchronize()
    assert_close(y, mix(torch.full_like(x, 0.25)))


def test_an_event_recorded_inside(backend: str) -> None:
    side, reader, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()

    def f(x: Tensor) -> Tensor:
        with torch.cuda.stream(side):
            y = mix(x)
            event.record(side)
        return y

    compiled = torch.compile(f, backend=backend)
    x = torch.zeros(256, 64, device="cuda")
    compiled(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late_write(x, 0.25)
    y = compiled(x)
    with torch.cuda.stream(reader):
        reader.wait_event(event)
        z = y + 1
    reader.synchronize()
    assert_close(z, mix(torch.full_like(x, 0.25)) + 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_tensors_on_another_device_than_the_current_one(mode: str, backend: str) -> None:
    module = nn.Sequential(nn.Linear(64, 64), nn.GELU()).to("cuda:1")
    compiled = torch.compile(module, backend=backend, mode=mode)
    x = torch.randn(256, 64, device="cuda:1", requires_grad=True)
    for _ in range(3):
        y = compiled(x)
        assert y.device == x.device and torch.cuda.current_device() == 0
        assert_close(y, module(x), rtol=1e-4, atol=1e-4)
        actual, expected = (torch.autograd.grad(run.sum(), x) for run in (y, module(x)))
        assert_close(actual, expected, rtol=1e-4, atol=1e-4)


# Users' Triton kernels -------------------------------------------------------------------------------------------


@triton.jit
def double(x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.autotune([triton.Config({"block": 128}), triton.Config({"block": 512})], key=["n"])
@triton.jit
def add(x, w, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(w + i, mask=i < n), mask=i < n)


def doubled(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 128)
    return y


def between(x: Tensor) -> Tensor:
    """The kernel between ops that are compiled."""
    return doubled(torch.softmax(x, -1)).sin() + x


def test_a_users_kernel_between_kernels_of_ours(backend: str) -> None:
    x = torch.randn(100, 33, device="cuda")
    assert_close(torch.compile(between, backend=backend, fullgraph=True)(x), between(x))


def test_the_report_of_a_users_kernel(cuesta_only: None) -> None:
    torch.compile(between, backend="cuesta", fullgraph=True)(torch.randn(100, 33, device="cuda"))
    graphs = cuesta.report().graphs
    assert any("triton_kernel_wrapper" in call["op"] for graph in graphs for call in graph.aten_calls)
    assert sum(len(graph.kernels) for graph in graphs) == 2  # what comes before it, and what comes after


def test_a_users_kernel_for_any_size(backend: str) -> None:
    compiled = torch.compile(between, backend=backend, fullgraph=True, dynamic=True)
    for rows in (100, 7, 300):
        x = torch.randn(rows, 33, device="cuda")
        assert_close(compiled(x), between(x))


@pytest.mark.parametrize("of_the_caller", [True, False])
def test_a_users_kernel_that_writes_in_place(of_the_caller: bool, backend: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x if of_the_caller else x + 1
        before = y.sum()
        double[(triton.cdiv(y.numel(), 128),)](y, y, y.numel(), 128)
        return y * 3, before

    x = torch.randn(100, 33, device="cuda")
    ours, eagers = x.clone(), x.clone()
    actual, expected = torch.compile(f, backend=backend, fullgraph=True)(ours), f(eagers)
    assert_close((actual, ours), (expected, eagers), rtol=1e-5, atol=1e-4)  # a sum of 3300 numbers


def test_a_users_kernel_that_is_tuned(backend: str) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = torch.empty_like(x)
        add[lambda chosen: (triton.cdiv(x.numel(), chosen["block"]),)](x.cos(), w, y, x.numel())
        return y.exp()

    x, w = torch.randn(2, 100, 33, device="cuda")
    assert_close(torch.compile(f, backend=backend, fullgraph=True)(x, w), f(x, w))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return doubled(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return doubled(gradient.contiguous())


def test_the_gradient_of_a_users_kernel(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return Doubled.apply(x.sin()).square().sum()

    x = torch.randn(100, 33, device="cuda", requires_grad=True)
    actual = torch.autograd.grad(torch.compile(f, backend=backend, fullgraph=True)(x), x)
    assert_close(actual, torch.autograd.grad(f(x), x))


@torch.library.triton_op("cuesta_contract::doubled", mutates_args=())
def doubled_op(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(double)[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 128)
    return y


def test_a_triton_op(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return doubled_op(x.sin()) + 1

    x = torch.randn(100, 33, device="cuda")
    assert_close(torch.compile(f, backend=backend, fullgraph=True)(x), f(x))
