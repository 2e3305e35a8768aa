"""Where the elements of a reshape lie without a copy."""

from __future__ import annotations

import pytest

from cuesta.passes.analysis.layout import dense_strides, view_strides
from cuesta.sizes import hints, parse


@pytest.mark.parametrize(
    ("sizes", "strides", "others", "found"),
    [
        ((4, 6), (6, 1), (2, 12), (12, 1)),
        ((4, 6), (1, 4), (24,), None),
        ((4, 6), (12, 1), (2, 2, 6), (24, 12, 1)),
        ((2, 1, 6), (6, 6, 1), (12, 1), (1, 1)),
        ((0, 6), (1, 4), (3, 0), (1, 1)),
    ],
)
def test_strides_of_a_reshape(
    sizes: tuple[int, ...], strides: tuple[int, ...], others: tuple[int, ...], found: tuple[int, ...] | None
) -> None:
    assert view_strides(sizes, strides, others) == found


def test_what_is_dense_stays_dense_where_nothing_says_that_sizes_divide() -> None:
    with hints({"s0": 6, "s1": 33}):
        rows, columns = parse("s0"), parse("s1")
        parts = [rows * columns // 3, 3]
        assert view_strides([rows, columns], dense_strides([rows, columns], range(2)), parts) == (3, 1)
        assert view_strides([rows, columns], (1, rows), parts) is None
