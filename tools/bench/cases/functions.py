"""Defines small functions of one or two kernels each, with their arguments on torch's default device."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.bench.cases.workload import Workload


def chain(rows: int, columns: int) -> Workload:
    def call(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x * y + 1).tanh() * 2 - x.exp().clamp(max=3)

    return Workload(call, (torch.randn(rows, columns), torch.randn(rows, columns)))


def softmax(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Workload:
    def call(x: Tensor) -> Tensor:
        return torch.softmax(x.float() * 0.125, -1)

    return Workload(call, (torch.randn(rows, columns).to(dtype),))


def layer_norm_residual(rows: int, columns: int) -> Workload:
    def call(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x + residual, (columns,), weight, bias)

    return Workload(
        call, (torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(columns), torch.randn(columns))
    )


def transpose(rows: int, columns: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return (x.t() + 1).contiguous()

    return Workload(call, (torch.randn(rows, columns),))


def column_sum(rows: int, columns: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return x.sum(0)

    return Workload(call, (torch.randn(rows, columns),))


def full_mean(rows: int, columns: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return (x * x).mean()

    return Workload(call, (torch.randn(rows, columns),))


def argmax(rows: int, columns: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return x.argmax(1)

    return Workload(call, (torch.randn(rows, columns),))


def cumsum(rows: int, columns: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return x.cumsum(1)

    return Workload(call, (torch.randn(rows, columns),))


def embedding(rows: int, columns: int, batch: int, length: int) -> Workload:
    def call(ids: Tensor, table: Tensor) -> Tensor:
        return F.embedding(ids, table) * 2

    return Workload(call, (torch.randint(rows, (batch, length)), torch.randn(rows, columns)))


def cross_entropy(rows: int, classes: int) -> Workload:
    def call(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)

    return Workload(call, (torch.randn(rows, classes), torch.randint(classes, (rows,))))


def matmul_gelu(rows: int, inner: int, columns: int) -> Workload:
    def call(x: Tensor, weight: Tensor) -> Tensor:
        return F.gelu(x @ weight)

    return Workload(call, (torch.randn(rows, inner), torch.randn(inner, columns)))


def misaligned(length: int) -> Workload:
    """A function whose argument begins one element behind the start of an allocation."""

    def call(x: Tensor) -> Tensor:
        return x * 2 + 1

    return Workload(call, (torch.randn(length + 1)[1:],))


def batch_norm(batch: int, channels: int, pixels: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, training=True)

    return Workload(call, (torch.randn(batch, channels, pixels, pixels),))


def three_ops(size: int) -> Workload:
    def call(x: Tensor) -> Tensor:
        return (x + 1) * 2 - x

    return Workload(call, (torch.randn(size, size),))
