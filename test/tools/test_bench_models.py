"""The models that only the benchmarks have are those that were published."""

from __future__ import annotations

from cuesta.tools.models import find_model


def test_mobilenet_v3_has_the_published_count_of_parameters() -> None:
    built = find_model("mobilenet_v3").make("full")
    assert sum(p.numel() for p in built.module.parameters()) == 5_483_032
    assert built.module(**built.inputs).shape == (2, 1000)
