"""The allocator of plan-memory, on any buffers: nothing overlaps, and little is wasted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cuesta.runtime.offsets import ALIGNMENT, Buffer, aligned, live_bytes, place

STEPS = 24


@st.composite
def buffers(draw: st.DrawFn) -> list[Buffer]:
    found = []
    for _ in range(draw(st.integers(0, 30))):
        first = draw(st.integers(0, STEPS - 1))
        found.append(Buffer(draw(st.integers(1, 4096)), first, draw(st.integers(first, STEPS - 1))))
    return found


@given(buffers())
def test_live_buffers_do_not_overlap_and_are_aligned(found: list[Buffer]) -> None:
    offsets, total = place(found)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert all(offset + buffer.nbytes <= total for offset, buffer in zip(offsets, found, strict=True))
    for i, a in enumerate(found):
        for j, b in enumerate(found[:i]):
            if a.meets(b):
                assert offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]


@given(buffers())
def test_the_arena_is_between_the_most_live_bytes_and_all_bytes(found: list[Buffer]) -> None:
    _, total = place(found)
    assert max(live_bytes(found, STEPS)) <= total <= sum(aligned(b.nbytes) for b in found)


@given(buffers())
def test_equal_buffers_are_placed_equally(found: list[Buffer]) -> None:
    assert place(found) == place(list(found))


def test_a_gap_is_filled_by_the_buffer_that_fits_it_best() -> None:
    low, middle, high = Buffer(1024, 0, 9), Buffer(512, 0, 4), Buffer(256, 5, 9)
    offsets, total = place([low, middle, high])
    assert offsets == [0, 1024, 1024]
    assert total == 1536


def test_nothing_takes_nothing() -> None:
    assert place([]) == ([], 0)
