"""On a GPU a pooling saves short offsets for its gradient, which goes to the same elements as eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta.frontend.decompositions.max_pool_ops  # noqa: F401  # defines the op
from cuesta.frontend.decompositions.max_pool_ops import first_places


def gradients(pool: Any, x: Tensor, direction: Tensor, **options: Any) -> tuple[Tensor, list[torch.dtype]]:
    """The gradient of a pooling of x in one direction, and the types of what a compiled one saves."""
    torch._dynamo.reset()
    run = torch.compile(pool, backend="cuesta", options=options, dynamic=False) if options else pool
    x = x.clone().requires_grad_()
    result = run(x)
    saved = [t.dtype for t in result.grad_fn.saved_tensors] if options else []
    (gradient,) = torch.autograd.grad(result, x, direction)
    return gradient, saved


SHAPES = {
    "2x2": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dense": {"kernel_size": 3, "stride": 1, "padding": 1},
    "oblong": {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "gaps": {"kernel_size": 2, "stride": 3},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(2, 3, 9, 12), (1, 4, 5, 2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients(shape: str, size: tuple[int, ...], layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    # Few values, so that windows have several maxima.
    x = torch.randint(-2, 2, size).float().contiguous(memory_format=layout)
    x[0, 0] = -torch.inf

    def pool(x: Tensor) -> Tensor:
        return F.max_pool2d(x * 2, **SHAPES[shape])

    direction = torch.randn_like(pool(x))
    expected, _ = gradients(pool, x, direction)
    actual, saved = gradients(pool, x, direction, target="tt")
    assert torch.int16 in saved and torch.int64 not in saved
    torch.testing.assert_close(actual, expected)  # several windows' gradients are added in another order
    assert torch.equal(actual == 0, expected == 0)


@pytest.mark.parametrize(
    ("pool", "size"),
    [
        (lambda x: F.max_pool2d(x * 2, 2, dilation=2), (2, 3, 9, 12)),
        (lambda x: F.max_pool2d(x * 2, 3), (1, 1, 3, 1 << 14)),
        (lambda x: F.max_pool2d(x * 2, 2, return_indices=True)[1] * F.max_pool2d(x, 2), (2, 3, 8, 8)),
    ],
    ids=["dilated", "a wide image", "positions that are read"],
)
def test_positions_that_stay(pool: Any, size: tuple[int, ...]) -> None:
    x = torch.randn(size)
    direction = torch.randn_like(pool(x))
    expected, _ = gradients(pool, x, direction)
    actual, _ = gradients(pool, x, direction, target="tt")
    torch.testing.assert_close(actual, expected)


def test_the_op_computes_what_it_stands_for() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 12)
    pooled, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    offsets = (indices - first_places(pooled, 12, [2, 2], [1, 1])).to(torch.int16)
    assert offsets.min() >= 0 and offsets.max() <= 2 * 12 + 2
    grad = torch.randn_like(pooled)
    expected = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, [3, 3], [2, 2], [1, 1], [1, 1], False, indices)
    actual = torch.ops.cuesta.max_pool_backward(grad, x, [3, 3], [2, 2], [1, 1], False, offsets)
    assert torch.equal(actual, expected)
