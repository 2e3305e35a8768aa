"""Attention of few queries on a GPU: the keys are split among programs. The interpreter of tt runs it beside eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import cuesta


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def mask_of(kind: str, batch: int, heads: int, queries: int, keys: int) -> Tensor | None:
    shape = (1 if kind == "shared" else batch, heads if kind == "heads" else 1, queries, keys)
    match kind:
        case "none":
            return None
        case "filled":  # a cache whose later parts are all hidden
            return (torch.arange(keys) < keys // 3).expand(batch, 1, queries, keys)
        case "shared":
            mask = torch.rand(shape) < 0.7
            mask[..., 0] = True
            return mask
    return torch.randn(shape).bfloat16()


# Batch, heads, heads of keys, queries, keys, width.
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 32, 8, 1, 1024, 64),
        (1, 8, 2, 3, 1000, 64),
        (2, 4, 4, 1, 192, 128),
        (1, 2, 2, 2, 997, 32),  # a prime number of keys has one part
        (3, 16, 1, 1, 64, 256),
    ],
)
@pytest.mark.parametrize("kind", ["none", "filled", "shared", "added", "heads"])
def test_results(sizes: tuple[int, ...], kind: str) -> None:
    batch, heads, groups, queries, keys, width = sizes
    torch.manual_seed(0)
    q = torch.randn(batch, heads, queries, width).bfloat16()
    k, v = (torch.randn(batch, groups, keys, width).bfloat16() for _ in range(2))
    mask = mask_of(kind, batch, heads, queries, keys)
    actual = torch.compile(attention, backend="cuesta", options={"target": "tt"}, dynamic=False)(q, k, v, mask)
    wide = mask.double() if mask is not None and mask.is_floating_point() else mask
    exact, eager = attention(q.double(), k.double(), v.double(), wide), attention(q, k, v, mask)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]


def test_a_row_that_sees_nothing_is_zero() -> None:
    q, k = torch.ones(1, 4, 1, 64).bfloat16(), torch.ones(1, 4, 256, 64).bfloat16()
    mask = torch.zeros(1, 1, 1, 256, dtype=torch.bool)
    actual = torch.compile(attention, backend="cuesta", options={"target": "tt"}, dynamic=False)(q, k, k, mask)
    assert not actual.any()


def test_a_rotary_embedding_is_computed_once_and_not_for_each_part_of_the_keys() -> None:
    def step(q: Tensor, cos: Tensor, sin: Tensor, k: Tensor, v: Tensor) -> Tensor:
        first, second = q.chunk(2, -1)
        return attention(q * cos + torch.cat([-second, first], -1) * sin, k, v, None)

    torch.manual_seed(0)
    q, angles = torch.randn(1, 8, 1, 64).bfloat16(), torch.randn(64)
    k, v = (torch.randn(1, 2, 512, 64).bfloat16() for _ in range(2))
    given = q, angles.cos().bfloat16(), angles.sin().bfloat16(), k, v
    actual = torch.compile(step, backend="cuesta", options={"target": "tt"}, dynamic=False)(*given)
    exact, eager = step(*(x.double() for x in given)), step(*given)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    kernels = [kernel["ops"] for kernel in graph["kernels"]]
    assert kernels == [["mul", "cat", "add"], ["attention"], ["attention"]], "then the parts, and what adds them up"
