"""What a recording asks of torch, in which order, and what is left of one that fails. Torch's CUDA is a stand-in."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.runtime.cuda import cuda_recorder
from cuesta.runtime.cuda.cuda_recorder import CudaRecorder
from cuesta.runtime.cuda.results import Block, Results
from cuesta.torch_private import devices


class FakeCuda:
    """Torch's allocator and default generator as a recording changes them, as torch 2.11 does."""

    def __init__(self) -> None:
        self.pools = 0
        self.allocates_to: list[Any] = []
        self.users: dict[Any, int] = {}  # pool → its graphs
        self.generator_recorded = False
        self.fails: dict[str, str] = {}
        self.workspaces: set[tuple[Any, ...]] = set()  # each with the pools that it may be in
        self.held = 3  # the allocator's memory that nobody uses
        self.free = 4  # the device's

    def give_back(self) -> None:
        assert not self.generator_recorded, "too late"
        self.held, self.free = 0, self.held + self.free

    def raise_if_asked(self, step: str) -> None:
        if step in self.fails:
            raise RuntimeError(self.fails.pop(step))

    def new_pool(self) -> tuple[int, int]:
        self.pools += 1
        return (0, self.pools)

    def end(self, device: int, pool: Any) -> None:
        if pool not in self.allocates_to:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.allocates_to.remove(pool)

    def release(self, device: int, pool: Any) -> None:
        self.users[pool] -= 1

    def graph(self) -> FakeGraph:
        return FakeGraph(self)


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.ended = False
        self.pool: Any = None

    def __del__(self) -> None:
        if self.ended:
            self.cuda.users[self.pool] -= 1

    def capture_begin(self, pool: Any = (1, 0), capture_error_mode: str = "global") -> None:
        assert pool not in self.cuda.allocates_to, "already recording to mempool_id"
        self.cuda.generator_recorded = True
        self.cuda.raise_if_asked("begin")
        assert self.cuda.users.get(pool, 1) > 0, "it->second->use_count > 0 INTERNAL ASSERT FAILED"
        self.pool = pool
        self.cuda.users[pool] = self.cuda.users.get(pool, 0) + 1
        self.cuda.allocates_to.append(pool)

    def capture_end(self) -> None:
        self.cuda.raise_if_asked("end")
        self.cuda.allocates_to.remove(self.pool)
        self.cuda.generator_recorded = False
        self.ended = True
        self.cuda.raise_if_asked("instantiate")

    def replay(self) -> None:
        pass


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake = FakeCuda()

    class Stream:
        def __init__(self, *_: Any) -> None: ...
        def wait_stream(self, other: Any) -> None: ...

    nothing: Callable[..., Any] = lambda *_: contextlib.nullcontext()  # noqa: E731
    stand_ins = {"CUDAGraph": fake.graph, "graph_pool_handle": fake.new_pool, "Stream": Stream}
    stand_ins |= {
        "empty_cache": fake.give_back,
        "memory_reserved": lambda _: fake.held + 5,
        "memory_allocated": lambda _: 5,
        "mem_get_info": lambda _: (fake.free, 80),
        "stream": nothing,
        "device": nothing,
        "synchronize": nothing,
        "current_stream": Stream,
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", fake.end, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", fake.release, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", fake.workspaces.clear, raising=False)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *sizes, device: zeros(*sizes))
    yield fake
    assert not fake.allocates_to and not fake.generator_recorded
    assert gc.isenabled()


RESULT = [torch.ones(1)]


def test_recordings_share_a_pool_and_see_no_garbage_collection(cuda: FakeCuda) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))
    kept = []
    for _ in range(2):
        seen: list[Any] = []
        replay, results, _ = recorder.record(
            lambda _, seen=seen: seen.extend([*cuda.allocates_to, gc.isenabled()]) or RESULT, recorder.open_pool(), []
        )
        kept.append(replay)
        assert results is RESULT and seen == [(0, 1), False]
    assert cuda.users == {(0, 1): 2}


def test_a_recording_keeps_no_workspace_of_cublas(cuda: FakeCuda) -> None:
    def multiply(_: list[torch.Tensor]) -> list[torch.Tensor]:
        assert not cuda.workspaces, "that of the call before is still there"
        cuda.workspaces.add(tuple(cuda.allocates_to))
        return RESULT

    cuda.workspaces.add(())  # made by a call before the recording
    recorder = CudaRecorder(torch.device("cuda", 0))
    recorder.record(multiply, recorder.open_pool(), [])
    assert not cuda.workspaces


@pytest.mark.parametrize(
    ("given", "meanwhile", "after"),
    [
        ("", "expandable_segments:True", "expandable_segments:False"),
        ("max_split_size_mb:64", "max_split_size_mb:64,expandable_segments:True", None),
        ("expandable_segments:False", "expandable_segments:False", "expandable_segments:False"),
        ("backend:cudaMallocAsync", "backend:cudaMallocAsync", "backend:cudaMallocAsync"),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("version", ["2.11", "2.12"])
def test_a_recordings_memory_grows_in_one_piece(
    cuda: FakeCuda,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    meanwhile: str,
    after: str | None,
    fails: bool,
    version: str,
) -> None:
    settings = [given]
    monkeypatch.setattr(devices, "_USERS", {})
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    if version == "2.11":
        monkeypatch.delattr(torch._C, "_accelerator_getAllocatorSettings")
        monkeypatch.setattr(
            torch.cuda.memory, "_snapshot", lambda: {"allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": settings[-1]}}
        )
    else:
        monkeypatch.setattr(torch._C, "_accelerator_getAllocatorSettings", lambda: settings[-1])
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", settings.append)
    recorder = CudaRecorder(torch.device("cuda", 0))
    seen: list[str] = []
    if fails:
        cuda.fails["instantiate"] = "operation not permitted"
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            recorder.record(lambda _: seen.append(settings[-1]) or RESULT, recorder.open_pool(), [])
    assert seen == [meanwhile, meanwhile]
    assert settings[-1] == (f"{given},expandable_segments:False" if after is None else after)


def test_copies_of_arguments_are_the_pools_unless_a_result_keeps_them(cuda: FakeCuda) -> None:
    given = [torch.ones(2, 3).t(), torch.ones(1).expand(4)]
    memory: list[StorageWeakRef] = []

    def run(copies: list[torch.Tensor]) -> list[torch.Tensor]:
        assert cuda.allocates_to == [(0, 1)]
        memory.extend(StorageWeakRef(copy.untyped_storage()) for copy in copies)
        return [copies.pop()]

    recorder = CudaRecorder(torch.device("cuda", 0))
    _, results, copies = recorder.record(run, recorder.open_pool(), given)
    assert [(c.shape, c.stride()) for c in copies] == [(t.shape, t.stride()) for t in given]
    assert copies[1].data_ptr() == results[0].data_ptr()
    assert [ref.expired() for ref in memory] == [True, False]


def test_copies_are_queued_on_the_stream_that_follows(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[tuple[int, ...]] = []
    monkeypatch.setattr(cuda_recorder, "copier", lambda device: lambda *words: queued.append((device, *words)))
    monkeypatch.setattr(cuda_recorder, "raw_cuda_stream", lambda index: 77)
    recorder = CudaRecorder(torch.device("cuda", 0))
    recorder.follow()
    recorder.copy([(1024, 16), (2048, 8)], [5, 6])
    assert queued == [(0, 1024, 5, 16, 77), (0, 2048, 6, 8, 77)]


def test_a_recording_finds_the_memory_that_the_allocator_held(cuda: FakeCuda) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))
    recorder.record(lambda _: RESULT, recorder.open_pool(), [])
    assert (cuda.held, cuda.free) == (3, 4), "there is enough"
    cuda.free = 2
    recorder.record(lambda _: RESULT, recorder.open_pool(), [])
    assert (cuda.held, cuda.free) == (0, 5)


def test_a_pool_with_lent_results_that_are_held_is_not_used(cuda: FakeCuda) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))
    pool = recorder.open_pool()
    kept = [recorder.record(lambda _: RESULT, pool, [])[0]]
    assert recorder.open_pool() is pool
    saved = torch.ones(1)
    (block,) = Block.all_of([saved], {0}, pool)
    assert block.may_lend(saved.dtype)
    held = [Results([block], recorder.held).lend(block, saved)]
    other = recorder.open_pool()
    assert other is not pool
    kept.append(recorder.record(lambda _: RESULT, other, [])[0])
    assert recorder.open_pool() is other
    held.clear()
    assert recorder.open_pool() is pool


def test_a_pool_whose_graphs_are_gone_is_not_used_again(cuda: FakeCuda) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))
    for _ in range(2):
        recorder.record(lambda _: RESULT, recorder.open_pool(), [])
        gc.collect()
    assert cuda.users == {(0, 1): 0, (0, 2): 0}


@pytest.mark.parametrize("step", ["begin", "end", "instantiate"])
def test_a_recording_that_torch_refuses_leaves_no_trace(cuda: FakeCuda, step: str) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))
    cuda.fails[step] = "operation not permitted"
    with pytest.raises(RuntimeError, match="operation not permitted"):
        recorder.record(lambda _: RESULT, recorder.open_pool(), [])
    assert not cuda.allocates_to and not cuda.generator_recorded
    assert recorder.record(lambda _: RESULT, recorder.open_pool(), [])[1] is RESULT


@pytest.mark.parametrize("end", ["works", "fails"])
def test_what_the_program_raises_is_raised(cuda: FakeCuda, end: str) -> None:
    recorder = CudaRecorder(torch.device("cuda", 0))

    def run(_: list[torch.Tensor]) -> list[torch.Tensor]:
        if end == "fails":
            cuda.fails["end"] = "operation failed due to a previous error during capture"
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        recorder.record(run, recorder.open_pool(), [])
    assert not cuda.allocates_to and not cuda.generator_recorded
    assert recorder.record(lambda _: RESULT, recorder.open_pool(), [])[1] is RESULT
