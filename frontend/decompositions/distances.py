"""Decomposes torch.cdist and torch.pdist into pointwise ops and reductions, which kernels can compute."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.symbolic_shapes import guard_or_true

aten = torch.ops.aten

#: For more points than this, ATen computes Euclidean distances by a matrix product.
_MOST_POINTS = 25


def _differences(x: Tensor, y: Tensor) -> Tensor:
    """x - y for all pairs of points: [..., P, M] and [..., R, M] → [..., P, R, M], in the type of x - y."""
    return x.unsqueeze(-2) - y.unsqueeze(-3)


def _by_product(x: Tensor, y: Tensor, compute_mode: int | None) -> bool:
    many = any(guard_or_true(points.shape[-2] > _MOST_POINTS) for points in (x, y))
    return compute_mode == 1 or (not compute_mode and many)


def _may_be_empty(x: Tensor) -> bool:
    return guard_or_true(x.numel() == 0)


def cdist_forward(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """The distance of each point of x to each of y. Left to ATen are calls that ATen computes by a matrix
    product, calls with empty tensors, and calls whose data-dependent sizes may make them either."""
    if (p == 2 and _by_product(x, y, compute_mode)) or _may_be_empty(x) or _may_be_empty(y):
        return NotImplemented
    return _norms(_differences(x, y), p)


def _norms(apart: Tensor, p: float) -> Tensor:
    """The p-norm over the last dim."""
    if p == 0:
        return (apart != 0).to(apart.dtype).sum(-1)
    if p == 2:
        return apart.square().sum(-1).sqrt()
    apart = apart.abs()
    if p == math.inf:
        return apart.amax(-1)
    return apart.sum(-1) if p == 1 else apart.pow(p).sum(-1).pow(1 / p)


def cdist_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, distances: Tensor) -> Tensor:
    """x's gradient over the broadcast batch dims of x and y, by ATen's formulas: 0 where a distance is 0."""
    if _may_be_empty(x) or _may_be_empty(y):
        return NotImplemented
    apart, grad, far = _differences(x, y), grad.unsqueeze(-1), distances.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(apart[..., 0, :])
    if p == 1:
        return (grad * apart.sign()).sum(-2)
    if p == math.inf:
        return torch.where(apart.abs() == far, grad * apart.sign(), 0).sum(-2)
    if p == 2:
        share = grad * apart / far
    elif p < 2:
        share = apart.sign() * apart.abs().pow(p - 1) * grad / far.pow(p - 1)
    else:
        share = apart * apart.abs().pow(p - 2) * grad / far.pow(p - 1)
    nowhere = far == 0
    if p < 1:
        nowhere = nowhere | (apart == 0)
    return torch.where(nowhere, 0, share).sum(-2)


def pdist_forward(x: Tensor, p: float = 2) -> Tensor:
    """The distance of each point of x, [N, M], to each later point: [N * (N - 1) / 2]."""
    if isinstance(x.shape[0], torch.SymInt) or x.shape[0] < 2 or _may_be_empty(x):
        return NotImplemented
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return _norms(x.index_select(0, first) - x.index_select(0, second), p)


def pdist_backward(grad: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    """x's gradient, by `cdist_backward` from x to x: each pair's gradient is read twice, once for either point."""
    if isinstance(x.shape[0], torch.SymInt) or x.shape[0] < 2 or _may_be_empty(x):
        return NotImplemented
    point = torch.arange(x.shape[0], device=x.device)
    other = point.unsqueeze(1)
    least = torch.minimum(point, other)
    place = least * x.shape[0] - least * (least + 1) // 2 + torch.maximum(point, other) - least - 1
    place = place.clamp(0, distances.shape[0] - 1)
    itself = point == other
    pairs = [torch.where(itself, 0, aten._unsafe_index(values, [place])) for values in (grad, distances)]
    return cdist_backward(pairs[0], x, x, p, pairs[1])


DECOMPOSITIONS: dict[Any, Any] = {
    aten._cdist_forward.default: cdist_forward,
    aten._cdist_backward.default: cdist_backward,
    aten._pdist_forward.default: pdist_forward,
    aten._pdist_backward.default: pdist_backward,
}
