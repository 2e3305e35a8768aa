"""Quantities, to read."""

from __future__ import annotations

from cuesta.reports.quantities import count_text, size_text


def test_one_is_singular_and_none_is_not() -> None:
    assert [count_text(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]
    assert [count_text(n, "launch", "launches") for n in (1, 3)] == ["1 launch", "3 launches"]


def test_sizes_have_a_digit_behind_the_point_from_a_kibibyte_on() -> None:
    texts = [size_text(n) for n in (0, 1023, 1536, 3 << 20, 5 << 30)]
    assert texts == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 MiB",
        "5.0 GiB",
    ]
