"""The strides of pointwise results, whatever order their operands' dims lie in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

aten = torch.ops.aten


def rand(*sizes: int) -> Tensor:
    return torch.rand(sizes) + 0.5


MATRICES: dict[str, Tensor] = {
    "rows": rand(6, 4),
    "columns": rand(4, 6).t(),
    "a column stretched": rand(6, 1).expand(6, 4),
    "a row stretched": rand(1, 4).expand(6, 4),
    "gaps": rand(6, 8)[:, ::2],
    "columns with gaps": rand(4, 12)[:, ::2].t(),
    "a row": rand(4),
    "a column": rand(6, 1),
    "a number": rand(),
}
IMAGES: dict[str, Tensor] = {
    "rows": rand(2, 3, 4, 5),
    "channels last": rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "reversed": rand(5, 4, 3, 2).permute(3, 2, 1, 0),
    "channels stretched": rand(2, 3, 1, 1).expand(2, 3, 4, 5),
    "a channel": rand(3, 1, 1),
    "one image, channels last": rand(1, 3, 4, 5).contiguous(memory_format=torch.channels_last),
}
#: Those that torch foretells wrong, and some of the others.
OPS: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in ("copysign", "heaviside", "logaddexp", "logaddexp2")},
    **{name: getattr(torch, name) for name in ("logical_and", "logical_or", "logical_xor", "xlogy", "add", "atan2")},
    "xlog1py": torch.special.xlog1py,
    "logit_backward": aten.logit_backward,
    "pow": torch.pow,
    "gt": torch.gt,
    "maximum": torch.maximum,
}


@pytest.mark.parametrize("name", OPS)
def test_strides_are_those_of_eager(backend: str, name: str) -> None:
    """All pairs of layouts, in both orders, in one graph."""
    op = OPS[name]
    pairs = [pair for group in (MATRICES, IMAGES) for pair in itertools.permutations(group.values(), 2)]

    def f(pairs: list[tuple[Tensor, Tensor]]) -> list[Any]:
        return [op(x, y) for x, y in pairs]

    compiled = torch.compile(f, backend=backend, options={"opt_level": 0})  # strides do not depend on it
    for got, want, (x, y) in zip(compiled(pairs), f(pairs), pairs, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)
        assert got.stride() == want.stride(), (x.shape, x.stride(), y.shape, y.stride())


def test_what_follows_is_laid_out_by_it(same_as_eager: Callable[..., Any]) -> None:
    same_as_eager(lambda x, y: torch.copysign(x.t(), y).clone() + 1, rand(4, 6), rand(6, 4))
    same_as_eager(lambda x, y: torch.copysign(x.t(), y), rand(4, 6).requires_grad_(), rand(6, 4))
    same_as_eager(lambda x, y: torch.copysign(x.t(), y), rand(4, 6), rand(6, 4), dynamic=True)
