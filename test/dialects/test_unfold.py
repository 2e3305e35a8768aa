"""`unfold`, compiled, against its reference: windows that overlap, lie side by side, or leave gaps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuesta.dialects.types import SPELLING


@pytest.mark.parametrize(("dim", "step", "count", "width"), [(0, 1, 4, 2), (1, 2, 3, 2), (1, 3, 1, 2), (0, 1, 1, 5)])
def test_unfold(dim: int, step: int, count: int, width: int, check_op: Callable[..., None]) -> None:
    x = torch.arange(-12, 18).reshape(5, 6)
    sizes = [count if d == dim else n for d, n in enumerate(x.shape)]
    for dtype in (torch.float32, torch.int64, torch.bool):
        check_op("unfold", [x.to(dtype)], [([*sizes, width], SPELLING[dtype])], f"dim = {dim}, step = {step}")
