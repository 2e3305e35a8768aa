"""Import rules of views, of what moves data, and of tensors made of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., Any]


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X = floats(2, 3, 4)
M = floats(4, 6)
WHOLE = torch.arange(24).reshape(4, 6)

VIEWS: dict[str, Callable[..., Any]] = {
    "view": lambda x: (x.view(2, 3, 2, 2), x.view(1, 2, 3, 4), x.view_as(x)),
    "reshape": lambda x: (x.reshape(4, 6), x.flatten(1), x.unflatten(2, (2, 2)), x.ravel()),
    "reshape of a transpose": lambda x: (x.transpose(0, 1).reshape(6, 4), x.permute(2, 1, 0).flatten()),
    "unsqueeze": lambda x: (x.unsqueeze(1), x.unsqueeze(-1)),
    "squeeze": lambda x: (x[:1].squeeze(), x[:1].squeeze(0), x[:1, :, :1].squeeze((0, 2)), x.squeeze(0)),
    "transpose": lambda x: (x[0].t(), x.mT, x.transpose(0, -1), x.swapaxes(0, 1)),
    "permute": lambda x: (x.permute(2, 0, 1), x.permute(-1, 0, 1), x.movedim(0, -1)),
    "expand": lambda x: (x[:, :1].expand(2, 5, 4), x[:, :1].expand(7, -1, 3, -1), x[:1].expand_as(x)),
    "slice": lambda x: (x[:, 1:], x[..., 1:4:2], x[:, -2:-1], x[:, 1:100], x[-100:1]),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "select": lambda x: (x[:, 1], x[:, -1], x.select(2, -3), x[1, 2, 3]),
    "split": lambda x: (x.split(2, 1), x.split([1, 3], 2), x.chunk(3, -1), x.tensor_split(3, 2)),
    "unbind": lambda x: (x.unbind(1), x.unbind(), x.unbind(-1)),
    "flip": lambda x: (x.flip(0, -1), x.flip(()), x.fliplr()),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(3, 1, 2, 2), x.tile(2), x.repeat_interleave(2, 1)),
    "clone": lambda x: (x.clone(), x.transpose(0, 1).clone(), x.transpose(0, 1).contiguous(), x.detach()),
    "scalars": lambda x: (
        x.sum().view(1, 1), x.sum().expand(3, 2), x.sum().permute(()), x.sum().clone(), x[0, 0, 0].unsqueeze(0),
        x.sum().flip(()), x.sum().t(), x[0, 0].t(), x.sum().repeat(2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("x", [X, floats(4, 3, 2).permute(2, 1, 0)], ids=["row-major", "transposed"])
def test_views(views: Callable[..., Any], x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(views, x)
    assert "aten.call" not in run.ops()


def test_as_strided_over_the_same_places_is_a_view(matches_eager: Check) -> None:
    image = floats(2, 3, 4, 4).to(memory_format=torch.channels_last)
    run = matches_eager(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1) * 2, image)
    assert "aten.call" not in run.ops()
    run = matches_eager(lambda x: (x + 1).as_strided((2, 3, 1, 4), (12, 4, 7, 1)) * 2, X.unsqueeze(2).contiguous())
    assert "aten.call" not in run.ops()
    run = matches_eager(lambda x: (x + 1)[:, ::2].as_strided((2, 3), (3, 1)) * 2, X)
    assert "aten.call" in run.ops()


def test_views_of_results_and_arithmetic_on_views(matches_eager: Check) -> None:
    matches_eager(lambda x: (x * 2).transpose(0, 2)[1:, ::2].reshape(-1) + 1, X)


def test_a_concatenation_leaves_out_what_is_empty(matches_eager: Check) -> None:
    run = matches_eager(lambda x, none: (torch.cat([none, x], -1), torch.cat([x[:0], x, x[:0]])), M, torch.empty(0))
    assert "aten.cat.default" not in run.reasons()


CASES: dict[str, tuple[Any, ...]] = {
    "cat": (lambda x, y: (torch.cat([x, y]), torch.cat([x, y, x], -1), torch.cat([x])), M, M + 1),
    "cat promotes": (lambda x, y: (torch.cat([x, y]), torch.cat([x.bfloat16(), x], 1)), M, WHOLE),
    "cat with empty operands": (lambda x: (torch.cat([x, torch.empty(0)]), torch.cat([x[:0], x, x[:0], x])), M),
    "cat of nothing": (lambda x: torch.cat([x[:0], x[:0]]), M),
    "stack": (lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.stack([x, y], 1)), M, M + 1),
    "stack promotes": (lambda x, y: torch.stack([x, y]), M, WHOLE),
    "stack of scalars": (lambda x: torch.stack([x, x + 1]), M[0, 0].clone()),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 0, 2), value=3.0), F.pad(x, (0, 0))), M),
    "pad that cuts": (lambda x: (F.pad(x, (-1, 2)), F.pad(x, (-1, -2, 1, -1), value=-math.inf)), M),
    "pad of ints and bools": (lambda x: (F.pad(x, (1, 1), value=7), F.pad(x > 3, (1, 1), value=True)), WHOLE),
    "slice_backward": (lambda g: aten.slice_backward(g, [4, 6], 1, 2, 4, 1), floats(4, 2)),
    "slice_backward from the end": (lambda g: aten.slice_backward(g, [4, 6], -1, -4, 2**63 - 1, 1), floats(4, 4)),
    "slice_backward with a step": (lambda g: aten.slice_backward(g, [4, 6], 1, 0, 6, 2), floats(4, 3)),
    "select_backward": (
        lambda g, h: (aten.select_backward(g, [4, 6], 1, 2), aten.select_backward(g, [4, 6], -1, -2),
                      aten.select_backward(h, [4, 6], 0, 3)), floats(4), floats(6),
    ),
    "select_backward to a vector": (lambda g: aten.select_backward(g, [4], 0, -1), M[0, 0].clone()),
    "full": (lambda x: (torch.full((2, 3), 2.5), torch.full((2,), 2), torch.full((2,), True), x + 1), M),
    "full of special numbers": (lambda x: (torch.full((2,), math.inf), torch.full((2,), 2**62 + 1), x + 1), M),
    "full_like": (lambda x: (torch.full_like(x, 3), x.new_full((2, 2), 1.5), torch.full_like(x, 2.7)), WHOLE),
    "full with a dtype": (lambda x: (torch.full((2,), 3, dtype=torch.bfloat16), x + 1), M),
    "full of truths": (lambda x: (torch.full((3,), 0.5, dtype=torch.bool), (x > 0).masked_fill(x > 1, 2)), M),
    "zeros": (lambda x: (torch.zeros(3), torch.zeros_like(x, dtype=torch.int64), x.new_zeros(3)), M),
    "ones": (lambda x: (torch.ones(3), torch.ones_like(x), x.new_ones((2,), dtype=torch.bool)), WHOLE),
    "empty": (lambda x: (torch.empty(2, 3).fill_(2), torch.empty_like(x).copy_(x)), M),
    "fill": (lambda x, v: (torch.fill(x, 3), torch.fill(x, v)), M, M[0, 0].clone()),
    "scalar_tensor": (lambda x: torch.scalar_tensor(2.5) * x, M),
    "copy": (lambda x, y: aten.copy(x, y), M, WHOLE[:1]),
    "arange": (lambda x: (torch.arange(5), torch.arange(2, 9), torch.arange(2, 9, 3), torch.arange(5, 0, -1)), M),
    "arange of floats": (lambda x: (torch.arange(0, 1, 0.3), torch.arange(0.5, 3), torch.arange(0, 100, 0.1)), M),
    "arange with a dtype": (lambda x: (torch.arange(5, dtype=torch.float32), torch.arange(3, dtype=torch.int32)), M),
    "arange of one": (lambda x: (torch.arange(1) + x[0, 0].long(), torch.arange(3, 4)), M),
    "ranges in arithmetic": (lambda x: x * torch.arange(6) + torch.arange(4)[:, None], M),
    "triangles": (lambda x: (torch.arange(4)[:, None] >= torch.arange(6)) * x, M),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: tuple[Any, ...], matches_eager: Check) -> None:
    matches_eager(*case)


@pytest.mark.parametrize("sizes", [(3, 1), (3, 1, 1), (0, 1), (1,)])
def test_padding_that_takes_the_one_element_away(sizes: tuple[int, ...], matches_eager: Check) -> None:
    matches_eager(lambda x: F.pad(x.unsqueeze(-2).transpose(0, -2), (-1, 1)).relu() + 1, torch.randn(sizes))
    matches_eager(lambda x: F.pad(x.unflatten(0, (-1, 1)), (-1, 1)), torch.randn(max(sizes[0], 1), 1))


def test_pad_keeps_nan_outside(matches_eager: Check) -> None:
    # The pad is its own number, not x times 0.
    x = torch.full((2, 2), math.nan)
    matches_eager(lambda x: F.pad(x, (1, 1)), x)
