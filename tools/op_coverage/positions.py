"""Accepts positions that differ from eager's: among equal numbers any is right, unless a stable order was requested."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuesta.tools.op_coverage.sample import Sample


@dataclass(frozen=True)
class _Order:
    """An operator that orders rows: the index of its `dim` argument, the name of its result with positions, and whether
    that has several positions a row, which must differ from one another."""

    dim: int
    result: str
    several: bool


_ORDERS = {
    "sort": _Order(1, "result[1]", True),
    "argsort": _Order(1, "result", True),
    "topk": _Order(2, "result[1]", True),
    "kthvalue": _Order(2, "result[1]", False),
    "median": _Order(1, "result[1]", False),
    "nanmedian": _Order(1, "result[1]", False),
    "mode": _Order(1, "result[1]", False),
}


def name_equals(entry: str, sample: Sample, name: str, got: Tensor, want: Tensor) -> bool:
    """Whether the result `name` holds positions, and the elements at `got` equal the elements at `want`."""
    order = _ORDERS.get(entry)
    if order is None or name != order.result or sample.kwargs.get("stable"):
        return False
    (x, *_), dim = sample.args, sample.kwargs.get("dim", (*sample.args, *[-1] * 3)[order.dim])
    if got.dim() < x.dim():
        got, want = got.unsqueeze(dim), want.unsqueeze(dim)
    if got.shape != want.shape or got.dtype != want.dtype or not x.dim():
        return False
    if ((got < 0) | (got >= x.shape[dim])).any():
        return False
    if order.several and not (got.sort(dim).values.diff(dim=dim) > 0).all():
        return False
    elements = x.detach().gather(dim, got), x.detach().gather(dim, want)
    return torch.equal(*(y.nan_to_num(0) for y in elements)) and torch.equal(*(y.isnan() for y in elements))
