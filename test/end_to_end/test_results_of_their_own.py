"""Ops whose results have memory of their own keep it where what they are taken apart into does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten
R = torch.randn
MATRIX, IMAGE = R(3, 4), R(2, 4, 3, 3)

NOTHING: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    **{
        f"the gradient of {kind} padding by nothing, {rank}d": (
            lambda x, kind=kind, rank=rank: getattr(aten, f"{kind}_pad{rank}d_backward")(x, x, [0] * (2 * rank)),  # type: ignore[misc]
            R(2, 3, *[4] * rank),
        )
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    },
    "padding by nothing": (lambda x: F.pad(x, (0, 0, 0, 0), mode="reflect"), IMAGE),
    "a shuffle of one group": (lambda x: F.channel_shuffle(x, 1), IMAGE),
    "a shuffle of single channels": (lambda x: F.channel_shuffle(x, 4), IMAGE),
    "pixels of one": (lambda x: F.pixel_shuffle(x, 1), IMAGE),
    "a pool of one": (lambda x: F.avg_pool2d(x, 1), IMAGE),
    "as large as before": (lambda x: F.interpolate(x, scale_factor=1.0), IMAGE),
    "no turn": (lambda x: x.rot90(0), MATRIX),
    "no roll": (lambda x: x.roll(0, 0), MATRIX),
    "no flip": (lambda x: x.flip([]), MATRIX),
    "once": (lambda x: x.repeat(1, 1), MATRIX),
    "of one": (lambda x: torch.cat([x]), MATRIX),
    "the sum of one row": (lambda x: x.sum(0), R(1, 4)),
    "the running sum of one row": (lambda x: x.cumsum(0), R(1, 4)),
    "one row, sorted": (lambda x: x.sort(0), R(1, 4)),
    "whole numbers rounded": (lambda x: x.round(), torch.arange(4)),
    "times one": (lambda x: x * 1, MATRIX),
    "all below": (lambda x: x.tril(9), MATRIX),
    "a part that is the whole": (lambda x: x.slice_scatter(x * 2, 0), MATRIX),
    "a copy of a view": (lambda x: aten.view_copy(x, [4, 3]), MATRIX),
}
#: The other way round: what is its argument, or a view of it.
THE_SAME: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "contiguous": (lambda x: x.contiguous(), MATRIX),
    "its own type": (lambda x: x.to(torch.float32), MATRIX),
    "reshaped": (lambda x: x.reshape(-1), MATRIX),
    "one part": (lambda x: x.split(3), MATRIX),
    "a plus": (lambda x: +x, MATRIX),
    "flat already": (lambda x: x.flatten(), R(4)),
}


@pytest.mark.parametrize("name", [*NOTHING, *THE_SAME])
def test_memory_is_shared_as_in_eager(same_as_eager: Callable[..., Any], name: str) -> None:
    same_as_eager(*(NOTHING | THE_SAME)[name])


def test_a_write_to_the_result_leaves_the_argument(backend: str) -> None:
    x = IMAGE.clone()
    torch.compile(lambda x: F.channel_shuffle(x, 1), backend=backend)(x).zero_()
    assert torch.equal(x, IMAGE)
