"""How products of f32 are cut for a CPU."""

from __future__ import annotations

import pytest

from cuesta.dialects.product import Panels
from cuesta.passes.libraries.products import panels
from cuesta.passes.libraries.products.panels import (
    is_faster,
    is_faster_by_a_vector,
    is_worth_packing,
    packed_columns,
    panels_of,
)


@pytest.mark.parametrize(
    ("m", "n", "k", "expected"),
    [
        (256, 768, 768, "256x96x384 by 8x48"),
        (256, 3072, 768, "256x192x384 by 8x48"),
        (1024, 768, 768, "512x192x384 by 8x48"),
        (394, 1000, 768, "394x125x384 by 8x48"),  # a divisor that fills vectors
        (128, 50257, 768, "128x96x128 by 8x48"),  # of sizes without such the last tile is smaller
        (2047, 768, 768, "512x192x384 by 8x48"),
        (1030, 100, 768, "344x100x384 by 8x48"),  # about equal tiles
        (128, 1024, 1000, "128x64x128 by 6x64"),  # blocks of K are about equal, and whole vectors
        (4, 768, 768, "4x96x64 by 8x48"),  # few rows: sums as exact as those of vectors along K
    ],
)
def test_tiles_divide_sizes(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, expected: str) -> None:
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: True)
    assert str(panels_of(m, n, k)) == expected
    assert Panels.parse(expected) == panels_of(m, n, k)


@pytest.mark.parametrize(("n", "expected"), [(768, "256x96x384 by 6x16"), (1000, "256x125x384 by 6x16")])
def test_blocks_of_16_registers(monkeypatch: pytest.MonkeyPatch, n: int, expected: str) -> None:
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: False)
    assert str(panels_of(256, n, 768)) == expected
    assert (packed_columns(768), packed_columns(1000)) == (16, 0)


def test_the_rule_of_thumb_takes_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: True)
    assert is_faster(4, 768, 768, across=False) and is_faster(128, 768, 768, across=True)
    assert not is_faster(128, 768, 768, across=False) and not is_faster(256, 768, 768, across=True)
    assert not is_faster(1, 768, 768, across=True) and not is_faster(4, 1000, 768, across=True)
    assert not is_faster(4, 96, 96, across=True)  # a cache holds it
    assert not is_faster(98, 160, 960, across=True)  # one tile is one thread's
    assert is_worth_packing(32, 768, 768) and is_worth_packing(32, 1024, 768) and not is_worth_packing(32, 800, 768)
    assert not is_worth_packing(16, 768, 768)  # a weight as it is comes from memory faster
    assert not is_worth_packing(128, 768, 3072)  # the left factor leaves the cache before the next panel
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: False)
    assert not is_faster(4, 768, 768, across=True) and not is_worth_packing(32, 768, 768)


def test_a_large_matrix_of_bf16_is_multiplied_by_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "has_vectors", lambda: True)
    assert is_faster_by_a_vector(768, 768) and is_faster_by_a_vector(1 << 15, 16)
    assert not is_faster_by_a_vector(96, 96)  # a cache holds it
    assert not is_faster_by_a_vector(1 << 20, 1)  # nothing is summed
    monkeypatch.setattr(panels, "has_vectors", lambda: False)
    assert not is_faster_by_a_vector(768, 768)


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="256x192x384 by 8x48"):
        Panels.parse("256x192x384/8/48")
