"""Where a custom op was registered is told as torch tells it."""

from __future__ import annotations

from torch._library import utils

from cuesta.registration import sources_unread


def test_the_place_is_the_one_that_torch_tells() -> None:
    torchs = utils.get_source
    with sources_unread():
        assert utils.get_source is not torchs
        assert utils.get_source(1) == torchs(1)
    assert utils.get_source is torchs
