"""How products of f32 are cut for a CPU."""

from __future__ import annotations

import pytest

from cuesta.dialects.product import Panels
from cuesta.passes.product_panels import panels_of


@pytest.mark.parametrize(
    ("m", "n", "k", "expected"),
    [
        (256, 768, 768, "256x96x384 by 8x48"),
        (256, 3072, 768, "256x192x384 by 8x48"),
        (1024, 768, 768, "512x192x384 by 8x48"),
        (394, 1000, 768, "394x125x384 by 8x48"),  # a size without larger divisors
        (128, 1024, 1000, "128x128x336 by 6x64"),  # blocks of K are about equal, and whole vectors
        (4, 768, 768, "4x96x64 by 8x48"),  # few rows: sums as exact as those of vectors along K
    ],
)
def test_tiles_divide_sizes(m: int, n: int, k: int, expected: str) -> None:
    assert str(panels_of(m, n, k)) == expected
    assert Panels.parse(expected) == panels_of(m, n, k)


@pytest.mark.parametrize(("m", "n"), [(256, 10007), (4099, 768)])
def test_sizes_without_divisors_stay_with_the_library(m: int, n: int) -> None:
    assert panels_of(m, n, 768) is None


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="256x192x384 by 8x48"):
        Panels.parse("256x192x384/8/48")
