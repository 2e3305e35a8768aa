"""Blocks of GPU kernels by numbers: which classes a program walks in loops, and how much it holds at once."""

from __future__ import annotations

import math

from cuesta.passes.gpu.block_sizes import HELD, Blocks, choose
from cuesta.passes.gpu.kernel_space import Space, Walk


def test_loops_walk_what_every_sum_allows() -> None:
    """Sums of 64 rows, of 32 parts and of 128, then sums of the parts. A loop over the 128 parts would leave none over
    the 64 rows, as the sums of these keep the parts."""
    parts = [[1, 2, 4], [3, 2, 4]]
    generics = [parts[0], [1, 4], parts[1], [3, 4], [0, 4]]
    space = Space([256, 32, 64, 128, 128], frozenset({4}), [*parts, [0, 4]], [[4]], generics, [{2}, {1}, {2}, {3}, {0}])
    blocks = choose(space, Walk())
    assert blocks.loops
    assert space.can_loop(blocks.loops)
    assert not space.can_loop([0, 2, 3])


def test_many_large_tensors_leave_less_to_each() -> None:
    """A channel's pixels fit one program where three tensors have them, but not where eight do."""

    def blocks(tensors: int) -> Blocks:
        image = [0, 2, 1]
        space = Space([8, 512, 256], frozenset({1}), [image] * tensors, [image], [image] * 3, [{0, 2}, set(), set()])
        return choose(space, Walk())

    few, many = blocks(3), blocks(8)
    assert not few.loops
    assert math.prod(few.sizes) * 3 <= HELD
    assert many.loops
    assert math.prod(many.sizes) * 8 <= HELD


def test_rows_that_are_only_computed_are_no_stream() -> None:
    """Kernels that share their columns alone, and have eight and nine rows: nothing is reduced."""
    space = Space([8, 9, 1 << 19], frozenset({2}), [[0, 2], [1, 2]], [[0, 2], [1, 2]], [[0, 2], [1, 2]], [set(), set()])
    assert not space.only_reduces
    assert choose(space, Walk()).sizes[2] <= 128


def test_few_elements_of_classes_apart_are_each_threads() -> None:
    """A product over three numbers, and two results a point: no op walks both classes. Long rows stay one."""

    def rows(along: int, beside: int) -> int:
        space = Space(
            [65536, along, beside], frozenset({0}), [[0, 1], [0, 2]], [[0]], [[0, 1], [0, 2]], [{1}, {2}], gathers=True
        )
        return choose(space, Walk()).sizes[0]

    assert rows(3, 2) > 1
    assert rows(512, 2) == 1
    assert rows(512, 256) == 1
