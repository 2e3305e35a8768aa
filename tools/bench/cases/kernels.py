"""Defines the benchmark cases of a few ops each, which mostly compile to one kernel."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.bench.cases import functions
from cuesta.tools.bench.cases.case import function
from cuesta.tools.bench.cases.workload import Workload


def _softmax() -> Workload:
    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    return Workload(softmax, (torch.randn(12, 256, 256),))


def _bias_gelu() -> Workload:
    def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(x + bias)

    return Workload(bias_gelu, (torch.randn(512, 3072), torch.randn(3072)))


def _rms_norm() -> Workload:
    def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    return Workload(rms_norm, (torch.randn(1024, 768), torch.randn(768)))


def _pointwise_chain(size: int) -> Workload:
    def chain(x: Tensor, y: Tensor) -> Tensor:
        z = torch.sigmoid(x * 1.5 + y)
        return torch.relu(z - 0.25) * torch.exp(-z) + torch.abs(y)

    return Workload(chain, (torch.randn(size, size), torch.randn(size, size)))


def _three_ops() -> Workload:
    def three_ops(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x * y + 1)

    return Workload(three_ops, (torch.randn(8, 8), torch.randn(8, 8)))


def _batch_norm_relu() -> Workload:
    norm = nn.BatchNorm2d(64).train()

    def batch_norm_relu(x: Tensor) -> Tensor:
        return torch.relu(norm(x))

    return Workload(batch_norm_relu, (torch.randn(8, 64, 56, 56),))


def _swiglu() -> Workload:
    def swiglu(gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate) * up

    return Workload(swiglu, (torch.randn(512, 3072), torch.randn(512, 3072)))


def _row_sums() -> Workload:
    def row_sums(x: Tensor) -> Tensor:
        return (x * x).sum(1)

    return Workload(row_sums, (torch.randn(2048, 1024),))


def _column_sums() -> Workload:
    def column_sums(x: Tensor) -> Tensor:
        return (x * x).sum(0)

    return Workload(column_sums, (torch.randn(2048, 1024),))


def _transpose_add() -> Workload:
    def transpose_add(x: Tensor, y: Tensor) -> Tensor:
        return x.t() + y

    return Workload(transpose_add, (torch.randn(1024, 1024), torch.randn(1024, 1024)))


def _embedding_mean() -> Workload:
    def embedding_mean(tokens: Tensor, weight: Tensor) -> Tensor:
        return F.embedding(tokens, weight).mean(1)

    return Workload(embedding_mean, (torch.randint(30000, (64, 128)), torch.randn(30000, 256)))


class _Attention(nn.Module):
    """Self-attention with its projections, 12 heads of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(768, 3 * 768), nn.Linear(768, 768)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (t.unflatten(-1, (12, 64)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        attended = F.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return out


def _attention_block() -> Workload:
    block = _Attention().eval()

    def attention_block(x: Tensor) -> Tensor:
        out: Tensor = block(x)
        return out

    return Workload(attention_block, (torch.randn(2, 128, 768),))


def _mlp(train: bool) -> Workload:
    module = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)).train(train)

    def mlp(x: Tensor) -> Tensor:
        out: Tensor = module(x)
        return out.square().mean() if train else out

    return Workload(mlp, (torch.randn(256, 768),), tuple(module.parameters()) if train else ())


KERNEL_CASES = (
    function("softmax_12x256x256", _softmax),
    function("bias_gelu_512x3072", _bias_gelu),
    function("layer_norm_residual_1024x768", partial(functions.layer_norm_residual, 1024, 768)),
    function("rms_norm_1024x768", _rms_norm),
    function("cross_entropy_256x8192", partial(functions.cross_entropy, 256, 8192)),
    function("batch_norm_relu_8x64x56x56", _batch_norm_relu),
    function("swiglu_512x3072", _swiglu),
    function("row_sums_2048x1024", _row_sums),
    function("column_sums_2048x1024", _column_sums),
    function("transpose_add_1024x1024", _transpose_add),
    function("embedding_mean_64x128x256", _embedding_mean),
    function("attention_block_2x128x768", _attention_block),
    function("mlp_eval_256x768", partial(_mlp, train=False)),
    function("mlp_train_256x768", partial(_mlp, train=True)),
    function("pointwise10_1024x1024", partial(_pointwise_chain, 1024)),
    function("pointwise10_64x64", partial(_pointwise_chain, 64)),
    function("call_overhead_8x8", _three_ops),
)
