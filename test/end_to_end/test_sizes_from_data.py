"""Programs whose sizes the data decide: what decompositions and rules ask of sizes guards on none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


@pytest.fixture(autouse=True)
def captured() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def written(x: Tensor, where: Any, what: Any) -> Tensor:
    x[where] = what
    return x


X = torch.arange(24.0).reshape(4, 6) % 5 - 2

#: Of a matrix [n, 2] of positions.
OF_NONZERO: dict[str, Callable[[Tensor], Any]] = {
    "a column written": lambda c: written(c, (slice(None), 0), 1),
    "a row written": lambda c: written(c, 0, 1),
    "a slice scattered": lambda c: c.slice_scatter(c[:1] * 0, 0, 0, 1),
    "a diagonal scattered": lambda c: c.t()[:1].diagonal_scatter(c[0, :1]),
    "sliced and joined": lambda c: torch.cat([c[1:], c[:-1], c.new_zeros(3, 2)]),
    "scattered": lambda c: torch.zeros_like(c).scatter(0, c * 0, c).index_put((torch.tensor([0, 1]),), c[:1]),
    "stretched": lambda c: c[None].expand(3, *c.shape) * 1,
    "reshaped": lambda c: c.reshape(-1).view(c.shape[0], 2, 1) + 1,
    "summed": lambda c: (c.sum(0), c.double().mean(1), c.amax(0)),
    "multiplied": lambda c: c.float() @ c.float().t(),
    "bags": lambda c: F.embedding_bag(c.reshape(-1), torch.ones(20, 3), torch.tensor([0, 1])),
    "a pool of channels": lambda c: F.adaptive_avg_pool1d(c.float().reshape(1, 1, -1), 3),
    "strides": lambda c: c.reshape(-1).as_strided((2,), (1,)),
    "normalised": lambda c: F.layer_norm(c.float(), (2,)).softmax(0),
}
#: Of the elements that a mask selects.
OF_SELECTED: dict[str, Callable[[Tensor], Any]] = {
    "written": lambda c: written(c, slice(0, 2), 7.0),
    "summed": lambda c: (c.sum(), c.cumsum(0), torch.outer(c, c)),
    "padded": lambda c: F.pad(c, (1, 2)),
    "sorted": lambda c: c.sort().values,
    "edges": lambda c: F.pad(c.reshape(1, 1, -1), (1, 1), mode="reflect"),
    "copysign": lambda c: torch.copysign(c, c.flip(0)),
}
#: Of a number that is an item.
OF_ITEM: dict[str, Callable[[int], Any]] = {
    "a range": lambda n: torch.arange(n) * 2,
    "zeros, written": lambda n: written(torch.zeros(n, 6), (slice(None), 1), 3.0),
    "a product": lambda n: torch.ones(3, n) @ torch.ones(n, 2),
    "stretched, written": lambda n: written(torch.ones(1, 2).expand(n, 2).clone(), (slice(None), 0), 3.0),
    "repeated": lambda n: torch.ones(n, 2).repeat(2, 1).reshape(-1),
    "a mean": lambda n: torch.arange(n).double().mean(),
}


@pytest.mark.parametrize("name", OF_NONZERO)
def test_of_positions(same_as_eager: Callable[..., Any], name: str) -> None:
    same_as_eager(lambda x: OF_NONZERO[name](x.nonzero()), X)


@pytest.mark.parametrize("name", OF_SELECTED)
def test_of_what_a_mask_selects(same_as_eager: Callable[..., Any], name: str) -> None:
    same_as_eager(lambda x: OF_SELECTED[name](x.masked_select(x > 0)), X)


@pytest.mark.parametrize("name", OF_ITEM)
def test_of_an_item(same_as_eager: Callable[..., Any], name: str) -> None:
    same_as_eager(lambda n: OF_ITEM[name](n.item()), torch.tensor(4))


def test_one_position_of_a_tensor_without_dims(same_as_eager: Callable[..., Any]) -> None:
    """As the gradient of index_fill reads its value's gradient."""
    same_as_eager(lambda x, i: x.index_select(0, i.unique()) * 2, torch.tensor(3.0), torch.tensor([0, 0]))
