"""Defines the benchmark cases of a few ops each, which mostly compile to one kernel."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.bench.cases.case import function
from cuesta.tools.bench.cases.functions import case, cross_entropy, ids, layer_norm_residual, normal
from cuesta.tools.bench.cases.workload import Workload


def _pointwise_chain(x: Tensor, y: Tensor) -> Tensor:
    z = torch.sigmoid(x * 1.5 + y)
    return torch.relu(z - 0.25) * torch.exp(-z) + torch.abs(y)


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _batch_norm_relu() -> Workload:
    norm = nn.BatchNorm2d(64).train()

    def batch_norm_relu(x: Tensor) -> Tensor:
        return torch.relu(norm(x))

    return Workload(batch_norm_relu, (torch.randn(8, 64, 56, 56),))


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
    case("softmax_12x256x256", lambda x: torch.softmax(x, -1), lambda: (normal(12, 256, 256),)),
    case("bias_gelu_512x3072", lambda x, bias: F.gelu(x + bias), lambda: (normal(512, 3072), normal(3072))),
    layer_norm_residual(1024, 768, "layer_norm_residual_1024x768"),
    case("rms_norm_1024x768", _rms_norm, lambda: (normal(1024, 768), normal(768))),
    cross_entropy(256, 8192, "cross_entropy_256x8192"),
    function("batch_norm_relu_8x64x56x56", _batch_norm_relu),
    case("swiglu_512x3072", lambda gate, up: F.silu(gate) * up, lambda: (normal(512, 3072), normal(512, 3072))),
    case("row_sums_2048x1024", lambda x: (x * x).sum(1), lambda: (normal(2048, 1024),)),
    case("column_sums_2048x1024", lambda x: (x * x).sum(0), lambda: (normal(2048, 1024),)),
    case("transpose_add_1024x1024", lambda x, y: x.t() + y, lambda: (normal(1024, 1024), normal(1024, 1024))),
    case(
        "embedding_mean_64x128x256",
        lambda tokens, table: F.embedding(tokens, table).mean(1),
        lambda: (ids(30000, 64, 128), normal(30000, 256)),
    ),
    function("attention_block_2x128x768", _attention_block),
    function("mlp_eval_256x768", partial(_mlp, train=False)),
    function("mlp_train_256x768", partial(_mlp, train=True)),
    case("pointwise10_1024x1024", _pointwise_chain, lambda: (normal(1024, 1024), normal(1024, 1024))),
    case("pointwise10_64x64", _pointwise_chain, lambda: (normal(64, 64), normal(64, 64))),
    case("call_overhead_8x8", lambda x, y: torch.relu(x * y + 1), lambda: (normal(8, 8), normal(8, 8))),
)
