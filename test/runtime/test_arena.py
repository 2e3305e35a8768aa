"""Arenas are aligned, kept, grown, and never given to two calls at once."""

from __future__ import annotations

import ctypes
import gc
import threading

import pytest
import torch

from cuesta.runtime.arena import ALIGNMENT, ArenaPool


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 1000, 1 << 20])
def test_an_arena_is_aligned_and_all_of_it_is_usable(nbytes: int) -> None:
    with ArenaPool().lease(nbytes) as arena:
        assert arena.address % ALIGNMENT == 0 and arena.nbytes >= nbytes
        ctypes.memset(arena.address, 0xAB, nbytes)
        assert ctypes.string_at(arena.address, nbytes) == b"\xab" * nbytes


def test_the_same_memory_serves_call_after_call() -> None:
    pool = ArenaPool()
    with pool.lease(1000) as first:
        address = first.address
    with pool.lease(10) as second:
        assert second is first and second.address == address
    assert pool.held_bytes == 1000


def test_grows_to_the_largest_need_and_drops_the_smaller() -> None:
    pool = ArenaPool()
    for nbytes in (100, 5000, 300, 9000, 9000):
        pool.lease(nbytes).release()
    assert pool.held_bytes == 9000


def test_the_smaller_is_freed_before_the_larger_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ArenaPool()
    pool.lease(100).release()
    held = []
    empty = torch.empty

    def counting_empty(nbytes: int, **options: object) -> torch.Tensor:
        held.append(pool.held_bytes)
        return empty(nbytes, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(torch, "empty", counting_empty)
    pool.lease(5000).release()
    assert held == [0]


def test_nested_leases_get_arenas_of_their_own_and_find_them_again() -> None:
    pool = ArenaPool()
    for _ in range(3):
        with pool.lease(4096) as outer, pool.lease(64) as inner:
            assert outer is not inner
            assert outer.address + outer.nbytes <= inner.address or inner.address + inner.nbytes <= outer.address
    assert pool.held_bytes == 4096 + 64


def test_a_free_arena_that_fits_is_found_below_one_that_does_not() -> None:
    pool = ArenaPool()
    large, small = pool.lease(4096), pool.lease(64)
    large.release()
    small.release()
    with pool.lease(4096) as arena:
        assert arena is large
    assert pool.held_bytes == 4096 + 64


def test_trim_frees_what_no_call_holds() -> None:
    pool = ArenaPool()
    held, free = pool.lease(1000), pool.lease(2000)
    free.release()
    del free
    pool.trim()
    assert pool.held_bytes == 1000
    held.release()
    assert pool.lease(1000) is held


def test_an_arena_is_released_when_the_call_raises() -> None:
    pool = ArenaPool()
    with pytest.raises(ZeroDivisionError), pool.lease(10) as arena:
        raise ZeroDivisionError
    assert pool.lease(10) is arena


def test_a_second_release_is_an_error() -> None:
    arena = ArenaPool().lease(10)
    arena.release()
    for again in (arena.release, arena.drop):
        with pytest.raises(RuntimeError, match="already released"):
            again()


def test_a_dropped_arena_s_memory_is_gone_and_the_next_lease_finds_another() -> None:
    pool = ArenaPool()
    arena = pool.lease(1000)
    arena.drop()
    assert pool.held_bytes == 0
    with pool.lease(10) as other:
        assert other is not arena and pool.held_bytes == 10


def test_an_arena_that_is_forgotten_is_not_counted() -> None:
    pool = ArenaPool()
    pool.lease(10)
    gc.collect()
    assert pool.held_bytes == 0


def test_a_default_device_does_not_move_it() -> None:
    with torch.device("meta"), ArenaPool().lease(128) as arena:
        assert arena.address != 0


def test_torchs_profiler_sees_the_memory() -> None:
    with torch.profiler.profile(profile_memory=True) as profile:
        ArenaPool().lease(1 << 20).release()
    assert any(event.key == "aten::empty" and event.cpu_memory_usage >= 1 << 20 for event in profile.key_averages())


def test_threads_never_share_an_arena() -> None:
    pool, errors, threads_count = ArenaPool(), [], 4
    barrier = threading.Barrier(threads_count)

    def work(mark: int) -> None:
        barrier.wait()
        for turn in range(2000):
            with pool.lease(64 + 64 * (turn % 7)) as arena:
                word = ctypes.c_int64.from_address(arena.address)
                word.value = mark
                if word.value != mark:
                    errors.append(turn)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(threads_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert pool.held_bytes <= threads_count * 64 * 7
