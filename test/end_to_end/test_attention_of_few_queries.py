"""Attention of few queries on a CPU, as when a text is made token by token: kernels that read the cache once."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
#: Heads of q, of k and v, queries, keys, and elements of a head of k and of v.
SIZES = [
    (8, 2, 1, 300, 64, 64),
    (4, 4, 1, 128, 128, 128),
    (6, 2, 3, 257, 80, 40),
    (16, 2, 7, 96, 24, 16),
    (2, 1, 2, 5, 9, 3),
    (1, 1, 1, 1, 1, 1),
    (3, 3, 2, 70, 256, 256),
]


def heads(count: int, length: int, depth: int, seed: int, dtype: torch.dtype, batch: int = 2) -> Tensor:
    """[batch, count, length, depth] as models lay heads out: [batch, length, count, depth] in memory."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, count, depth, generator=generator).to(dtype).transpose(1, 2)


def inputs(sizes: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    many, few, queries, keys, depth, width = sizes
    return [
        heads(many, queries, depth, 0, dtype),
        heads(few, keys, depth, 1, dtype),
        heads(few, keys, width, 2, dtype),
    ]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def check(operands: list[Tensor], mask: Tensor | None = None) -> None:
    """A kernel, whose result is no further from f64's than twice ATen's, and a rounding."""
    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="cuesta", options={"attention": "kernel", "cache": False})
    with torch.no_grad():
        actual, aten = compiled(*operands, mask), attend(*operands, mask)
        wide = mask.double() if mask is not None and mask.is_floating_point() else mask
        exact = attend(*(x.double() for x in operands), wide)
    assert not any("attention" in call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls)
    assert actual.dtype == aten.dtype and (actual.stride() == aten.stride() or 1 in actual.shape)
    rounding = torch.finfo(actual.dtype).eps * exact.abs().max()
    assert (actual - exact).abs().max() <= 2 * (aten - exact).abs().max() + rounding


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    check(inputs(sizes, dtype))


def masks() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    added = torch.randn(2, 6, 3, 140, generator=generator)
    shown = torch.rand(2, 6, 3, 140, generator=generator) > 0.3
    return {
        "of keys": torch.arange(140)[None] <= 77,
        "of queries and keys": shown[:1, :1],
        "of each head": added,
        "of each head, of keys": added[:, :, :1],
        "of each head, shown": shown[:1],
        "stretched": shown[:, :1, :1].expand(2, 6, 3, 140),
        "of queries": added[..., :1].expand(2, 6, 3, 140),
        "turned": torch.randn(2, 1, 140, 3, generator=generator).mT,
        "with gaps": torch.randn(2, 6, 3, 280, generator=generator)[..., ::2],
        "infinite": torch.where(shown, added, -math.inf),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", masks())
def test_masks(name: str, dtype: torch.dtype) -> None:
    mask = masks()[name]
    check(inputs((6, 2, 3, 140, 32, 32), dtype), mask.to(dtype) if mask.is_floating_point() else mask)


@pytest.mark.parametrize("heads_of_keys", [1, 2, 6])
def test_masks_of_heads_in_groups_of_any_size(heads_of_keys: int) -> None:
    check(inputs((6, heads_of_keys, 1, 140, 32, 32), torch.float32), masks()["of each head"][:, :, :1])


@pytest.mark.parametrize("position", [0, 15, 128, 299])
def test_what_lies_behind_the_position_counts_nothing(position: int) -> None:
    """Blocks of keys that the mask hides are passed over, even where they hold no numbers."""
    operands = inputs((8, 2, 1, 300, 64, 64), torch.bfloat16)
    mask = torch.arange(300)[None] <= position
    compiled = torch.compile(attend, backend="cuesta", options={"attention": "kernel", "cache": False})
    with torch.no_grad():
        before = compiled(*operands, mask)
        for cache in operands[1:]:
            cache[:, :, position + 1 :] = 100.0
        assert torch.equal(compiled(*operands, mask), before)


def test_a_row_that_sees_nothing_is_zero_and_nan_comes_through() -> None:
    operands = inputs((2, 2, 2, 64, 16, 16), torch.float32)
    compiled = torch.compile(attend, backend="cuesta", options={"attention": "kernel", "cache": False})
    shown = torch.ones(2, 64, dtype=torch.bool)
    shown[1] = False
    with torch.no_grad():
        torch.testing.assert_close(compiled(*operands, shown), attend(*operands, shown), equal_nan=True)
        for x in operands:
            changed = [y.clone() for y in operands]
            place = next(i for i, y in enumerate(operands) if y is x)
            changed[place][0, 1, 1, 3] = math.nan
            torch.testing.assert_close(compiled(*changed, None), attend(*changed), equal_nan=True)


def test_the_number_of_keys_may_depend_on_the_call() -> None:
    compiled = torch.compile(attend, backend="cuesta", dynamic=True, options={"attention": "kernel", "cache": False})
    for keys in (100, 257, 128):
        operands = inputs((8, 2, 1, keys, 64, 64), torch.bfloat16)
        with torch.no_grad():
            actual, exact = compiled(*operands), attend(*(x.double() for x in operands))
        torch.testing.assert_close(actual.double(), exact, rtol=2e-2, atol=2e-2)


def test_gradients_are_atens() -> None:
    """The logsumexp that a backward pass reads is ATen's."""
    operands = [x.requires_grad_() for x in inputs((4, 4, 2, 128, 32, 32), torch.float32)]
    compiled = torch.compile(attend, backend="cuesta", options={"attention": "kernel", "cache": False})
    up = torch.randn(2, 4, 2, 32)
    actual = torch.autograd.grad(compiled(*operands), operands, up)
    torch.testing.assert_close(actual, torch.autograd.grad(attend(*operands), operands, up), rtol=1e-4, atol=1e-5)
