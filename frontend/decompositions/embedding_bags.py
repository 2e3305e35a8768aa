"""Decomposes the gradients of embedding_bag into an embedding's: the gradient of each row is that of its bag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.symbolic_shapes import guard_or_false, guard_or_true

aten = torch.ops.aten

_MEAN, _MAX = 1, 2


def _may_be_empty(x: Tensor) -> bool:
    """Whether x has no rows, or a data-dependent number of rows."""
    return guard_or_true(x.shape[0] == 0)


def _bag_of_each(rows: int, offsets: Tensor, known: Tensor) -> Tensor:
    """The bag of each of `rows` rows. `known` is the forward pass's answer (offset2bag), which may be empty."""
    if guard_or_false(known.shape[0] == rows):
        return known
    begun = offsets.new_zeros(rows + 1).index_add(0, offsets, torch.ones_like(offsets))
    return begun.cumsum(0, dtype=offsets.dtype)[:rows] - 1


def _spread(bags: Tensor, offsets: Tensor, place: Tensor) -> Tensor:
    """The entry of `bags` for each row's bag. Where `offsets` ends with the end of the last bag, later rows get 0."""
    if guard_or_false(offsets.shape[0] == bags.shape[0]):
        return bags.index_select(0, place)
    inside = (place < bags.shape[0]).unsqueeze(1)
    return torch.where(inside, bags.index_select(0, place.clamp_max(bags.shape[0] - 1)), 0)


def backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The table's gradient, [num_weights, columns]. ATen computes it where it is sparse or from empty tensors."""
    if sparse or _may_be_empty(indices) or _may_be_empty(grad):
        return NotImplemented
    if mode == _MAX:
        grad = torch.where((bag_size[: grad.shape[0]] > 0).unsqueeze(1), grad, 0)
        return grad.new_zeros(num_weights, grad.shape[1]).scatter_add(0, maximum_indices.to(torch.int64), grad)
    if mode == _MEAN:
        grad = grad / bag_size[: grad.shape[0]].clamp_min(1).unsqueeze(1)
    rows = _spread(grad, offsets, _bag_of_each(indices.shape[0], offsets, offset2bag))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    result: Tensor = aten.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)
    return result


def per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    """Gradients of the per-sample weights, one per index: the dot product of its row and its bag's gradient."""
    if _may_be_empty(indices) or _may_be_empty(grad):
        return NotImplemented
    rows = _spread(grad, offsets, _bag_of_each(indices.shape[0], offsets, offset2bag))
    products = (rows * aten.embedding(weight, indices)).sum(1)
    return torch.where(indices == padding_idx, 0, products) if padding_idx >= 0 else products


DECOMPOSITIONS: dict[Any, Any] = {
    aten._embedding_bag_backward.default: backward,
    aten._embedding_bag_per_sample_weights_backward.default: per_sample_weights_backward,
}
