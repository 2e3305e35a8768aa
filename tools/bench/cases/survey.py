"""Defines the cases of `cuesta-bench --survey`: small functions of all kinds, mostly one kernel each.

Each takes longer than the overhead of a call, and most have data that fit in the caches.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.bench.cases.functions import case as _case
from cuesta.tools.bench.cases.functions import ids as _i
from cuesta.tools.bench.cases.functions import mask as _b
from cuesta.tools.bench.cases.functions import normal as _f
from cuesta.tools.bench.cases.functions import step as _step
from cuesta.tools.bench.cases.functions import weight as _g

_ROWS, _IMAGES = (1024, 1024), (8, 64, 56, 56)
_BF16, _F16, _F64 = torch.bfloat16, torch.float16, torch.float64


def _adam(
    weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    mean = mean.lerp(gradient, 0.1)
    square = square * 0.999 + 0.001 * gradient * gradient
    denominator = (square / (1 - 0.999**step)).sqrt() + 1e-8
    return weight * 0.999 - 1e-3 * (mean / (1 - 0.9**step)) / denominator, mean, square


def _sgd(weight: Tensor, gradient: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor]:
    momentum = 0.9 * momentum + gradient
    return weight - 0.1 * momentum, momentum


def _rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (1024,), weight, 1e-6)


def _group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 8, weight, bias)


_POINTWISE = (
    _case("chain_sigmoid_exp", lambda x, y: torch.sigmoid(x * 1.5 + y) * torch.exp(-x.abs()), lambda: (
        _f(*_ROWS), _f(*_ROWS))),
    _case("add_relu", lambda x, y: torch.relu(x + y), lambda: (_f(*_ROWS), _f(*_ROWS))),
    _case("gelu", lambda x: F.gelu(x), lambda: (_f(*_ROWS),)),
    _case("gelu_bf16", lambda x: F.gelu(x), lambda: (_f(*_ROWS, dtype=_BF16),)),
    _case("silu_f16", lambda x: F.silu(x), lambda: (_f(*_ROWS, dtype=_F16),)),
    _case("sin_square_tanh_f64", lambda x: (x.sin() + x * x).tanh(), lambda: (_f(512, 512, dtype=_F64),)),
    _case("exp_f64", lambda x: x.exp(), lambda: (_f(512, 512, dtype=_F64),)),
    _case("pow_log", lambda x: x.abs().pow(1.7) + x.abs().log1p(), lambda: (_f(*_ROWS),)),
    _case("atan2_hypot", lambda x, y: torch.atan2(x, y) + torch.hypot(x, y), lambda: (_f(512, 512), _f(512, 512))),
    _case("int8_add_clamp", lambda x, y: (x.int() + y.int()).clamp(-128, 127).to(torch.int8), lambda: (
        torch.randint(-128, 128, _ROWS, dtype=torch.int8), torch.randint(-128, 128, _ROWS, dtype=torch.int8))),
    _case("int64_mod_floor", lambda x: x % 7 + x // 3, lambda: (_i(100000, 512, 512),)),
    _case("quantise_int8", lambda x: (x * 20).round().clamp(-128, 127).to(torch.int8), lambda: (_f(*_ROWS),)),
    _case("dequantise_int8", lambda q, s: q.float() * s, lambda: (
        torch.randint(-128, 128, _ROWS, dtype=torch.int8), _f(1024, 1))),
    _case("f32_to_bf16", lambda x: x.bfloat16(), lambda: (_f(*_ROWS),)),
    _case("bf16_to_f32", lambda x: x.float(), lambda: (_f(*_ROWS, dtype=_BF16),)),
    _case("f16_to_f32", lambda x: x.float(), lambda: (_f(*_ROWS, dtype=_F16),)),
    _case("where_mask", lambda m, x, y: torch.where(m, x, y), lambda: (_b(*_ROWS), _f(*_ROWS), _f(*_ROWS))),
    _case("masked_fill", lambda x, m: x.masked_fill(m, -1e9) * 0.125, lambda: (_f(16, 256, 256), _b(256, 256))),
    _case("causal_tril", lambda x: torch.tril(x) + 1, lambda: (_f(*_ROWS),)),
    _case("dropout_given_mask", lambda x, m: x * m * 1.25, lambda: (_f(*_ROWS), _b(*_ROWS))),
    _case("adam_step", _adam, lambda: (*(_f(512, 1024) for _ in range(3)), _f(512, 1024).abs(), torch.tensor(7.0))),
    _case("sgd_momentum", _sgd, lambda: (_f(*_ROWS), _f(*_ROWS), _f(*_ROWS))),
    _case("rotary", _rotary, lambda: (_f(4, 16, 256, 64), _f(256, 64), _f(256, 64))),
    _case("complex_multiply", lambda x, y: x * y, lambda: (
        torch.randn(512, 512, dtype=torch.complex64), torch.randn(512, 512, dtype=torch.complex64))),
)  # fmt: skip

_BROADCASTS = (
    _case("row_bias", lambda x, b: x + b, lambda: (_f(*_ROWS), _f(1024))),
    _case("column_scale", lambda x, s: x * s[:, None] + 1, lambda: (_f(*_ROWS), _f(1024))),
    _case("channel_affine", lambda x, s, b: x * s[:, None, None] + b[:, None, None], lambda: (
        _f(*_IMAGES), _f(64), _f(64))),
    _case("outer_difference", lambda x, y: x[:, None] - y[None], lambda: (_f(1024), _f(1024))),
    _case("outer_distance", lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), lambda: (_f(256, 32), _f(256, 32))),
    _case("transpose_add", lambda x, y: x.t() + y, lambda: (_f(*_ROWS), _f(*_ROWS))),
    _case("transpose_copy", lambda x: x.t().contiguous(), lambda: (_f(*_ROWS),)),
    _case("heads_permute", lambda x: x.view(4, 256, 16, 64).transpose(1, 2).contiguous(), lambda: (_f(4, 256, 1024),)),
    _case("to_channels_last", lambda x: x.contiguous(memory_format=torch.channels_last), lambda: (_f(*_IMAGES),)),
)  # fmt: skip

_REDUCTIONS = (
    _case("sum_rows", lambda x: x.sum(1), lambda: (_f(*_ROWS),)),
    _case("sum_short_rows", lambda x: x.sum(-1), lambda: (_f(65536, 16),)),
    _case("sum_inner_dims", lambda x: x.sum((1, 3)), lambda: (_f(512, 16, 16, 8),)),
    _case("argmax_short_rows", lambda x: x.argmax(-1), lambda: (_f(65536, 16),)),
    _case("sum_columns", lambda x: x.sum(0), lambda: (_f(*_ROWS),)),
    _case("sum_all", lambda x: (x * x).sum(), lambda: (_f(*_ROWS),)),
    _case("sum_channels", lambda x: x.sum((0, 2, 3)), lambda: (_f(*_IMAGES),)),
    _case("mean_bf16", lambda x: x.mean(-1), lambda: (_f(*_ROWS, dtype=_BF16),)),
    _case("sum_int64", lambda x: x.sum(-1), lambda: (_i(100, *_ROWS),)),
    _case("max_rows", lambda x: x.amax(1), lambda: (_f(*_ROWS),)),
    _case("max_columns", lambda x: x.amax(0), lambda: (_f(*_ROWS),)),
    _case("max_with_positions", lambda x: x.max(-1), lambda: (_f(*_ROWS),)),
    _case("argmax_rows", lambda x: x.argmax(-1), lambda: (_f(*_ROWS),)),
    _case("argmax_columns", lambda x: x.argmax(0), lambda: (_f(*_ROWS),)),
    _case("argmax_all", lambda x: x.argmax(), lambda: (_f(2048, 2048),)),
    _case("any_greater", lambda x: (x > 3).any(-1), lambda: (_f(*_ROWS),)),
    _case("var_rows", lambda x: x.var(-1), lambda: (_f(*_ROWS),)),
    _case("norm_rows", lambda x: x / x.norm(dim=-1, keepdim=True), lambda: (_f(*_ROWS),)),
    _case("logsumexp", lambda x: x.logsumexp(-1), lambda: (_f(*_ROWS),)),
    _case("prod_rows", lambda x: x.prod(-1), lambda: (_f(*_ROWS),)),
    _case("cumsum_rows", lambda x: x.cumsum(-1), lambda: (_f(*_ROWS),)),
    _case("cumsum_columns", lambda x: x.cumsum(0), lambda: (_f(*_ROWS),)),
    _case("topk", lambda x: x.topk(8), lambda: (_f(512, 1024),)),
    _case("sort", lambda x: x.sort(-1), lambda: (_f(256, 1024),)),
)

_NORMS = (
    _case("softmax", lambda x: x.softmax(-1), lambda: (_f(*_ROWS),)),
    _case("softmax_short_rows", lambda x: x.softmax(-1), lambda: (_f(65536, 16),)),
    _case("softmax_bf16", lambda x: x.softmax(-1), lambda: (_f(*_ROWS, dtype=_BF16),)),
    _case("softmax_columns", lambda x: x.softmax(0), lambda: (_f(*_ROWS),)),
    _case("log_softmax", lambda x: x.log_softmax(-1), lambda: (_f(*_ROWS),)),
    _case("layer_norm", lambda x, w, b: F.layer_norm(x, (1024,), w, b), lambda: (_f(*_ROWS), _f(1024), _f(1024))),
    _case("layer_norm_heads", lambda x, w, b: F.layer_norm(x, (64,), w, b), lambda: (
        _f(4, 256, 16, 64), _f(64), _f(64))),
    _case("rms_norm", _rms_norm, lambda: (_f(*_ROWS), _f(1024))),
    _case("group_norm", _group_norm, lambda: (_f(*_IMAGES), _f(64), _f(64))),
    _case("batch_norm_eval", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), lambda: (
        _f(*_IMAGES), _f(64), _f(64).abs(), _f(64), _f(64))),
    _case("instance_norm", lambda x: F.instance_norm(x), lambda: (_f(*_IMAGES),)),
    _step("softmax_step", lambda x: x.softmax(-1), lambda: (_g(*_ROWS), _f(*_ROWS))),
    _step("log_softmax_step", lambda x: x.log_softmax(-1), lambda: (_g(*_ROWS), _f(*_ROWS))),
    _step("layer_norm_step", lambda x, w, b: F.layer_norm(x, (1024,), w, b), lambda: (
        _g(*_ROWS), _g(1024), _g(1024), _f(*_ROWS))),
    _step("rms_norm_step", _rms_norm, lambda: (_g(*_ROWS), _g(1024), _f(*_ROWS))),
    _step("group_norm_step", _group_norm, lambda: (_g(*_IMAGES), _g(64), _g(64), _f(*_IMAGES))),
    _step("batch_norm_step", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), lambda: (
        _g(*_IMAGES), _g(64), _g(64), _f(*_IMAGES))),
    _step("instance_norm_step", lambda x: F.instance_norm(x), lambda: (_g(*_IMAGES), _f(*_IMAGES))),
    _step("gelu_step", lambda x: F.gelu(x), lambda: (_g(*_ROWS), _f(*_ROWS))),
)  # fmt: skip

_MOVES = (
    _case("pad_images", lambda x: F.pad(x, (1, 1, 1, 1)), lambda: (_f(*_IMAGES),)),
    _case("pad_reflect", lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), lambda: (_f(*_IMAGES),)),
    _case("cat_rows", lambda x, y: torch.cat((x, y)), lambda: (_f(512, 1024), _f(512, 1024))),
    _case("cat_halves", lambda x, y: torch.cat((x, y), 1), lambda: (_f(1024, 512), _f(1024, 512))),
    _case("cat_relu", lambda x, y: torch.relu(torch.cat((x, y), 1)), lambda: (_f(8, 32, 56, 56), _f(8, 32, 56, 56))),
    _case("stack_last", lambda x, y: torch.stack((x, y), -1), lambda: (_f(512, 1024), _f(512, 1024))),
    _case("flip", lambda x: x.flip(-1), lambda: (_f(*_ROWS),)),
    _case("roll", lambda x: x.roll((3, 5), (0, 1)), lambda: (_f(*_ROWS),)),
    _case("strided_slice", lambda x: x[:, ::2] + x[:, 1::2], lambda: (_f(1024, 2048),)),
    _case("repeat", lambda x: x.repeat(4, 2), lambda: (_f(256, 512),)),
    _case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), lambda: (_f(*_IMAGES),)),
    _case("unfold_windows", lambda x: x.unfold(1, 16, 8).sum(-1), lambda: (_f(512, 2048),)),
    _case("gather", lambda x, i: x.gather(1, i), lambda: (_f(*_ROWS), _i(1024, *_ROWS))),
    _case("index_rows", lambda x, i: x[i] * 2, lambda: (_f(4096, 256), _i(4096, 4096))),
    _case("index_select_columns", lambda x, i: x.index_select(1, i), lambda: (_f(*_ROWS), _i(1024, 1024))),
    _case("scatter", lambda x, i, y: x.scatter(1, i, y), lambda: (
        _f(*_ROWS), torch.rand(1024, 1024).argsort(-1)[:, :256].contiguous(), _f(1024, 256))),
    _case("index_add", lambda x, i, y: x.index_add(0, i, y), lambda: (_f(1024, 256), _i(1024, 4096), _f(4096, 256))),
    _case("embedding", lambda i, w: F.embedding(i, w), lambda: (_i(30000, 4096), _f(30000, 256))),
    _step("embedding_step", lambda i, w: F.embedding(i, w), lambda: (_i(4000, 2048), _g(4000, 256), _f(2048, 256))),
    _case("one_hot_float", lambda i: F.one_hot(i, 256).float(), lambda: (_i(256, 2048),)),
)  # fmt: skip

_IMAGE_OPS = (
    _case("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (_f(*_IMAGES),)),
    _case("avg_pool", lambda x: F.avg_pool2d(x, 2), lambda: (_f(*_IMAGES),)),
    _case("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, 7), lambda: (_f(*_IMAGES),)),
    _case("global_avg_pool", lambda x: x.mean((2, 3)), lambda: (_f(*_IMAGES),)),
    _case("upsample_bilinear", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), lambda: (
        _f(4, 32, 56, 56),)),
    _case("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2.0), lambda: (_f(4, 32, 56, 56),)),
    _case("interpolate_area", lambda x: F.interpolate(x, size=(28, 28), mode="area"), lambda: (_f(*_IMAGES),)),
    _step("max_pool_step", lambda x: F.max_pool2d(x, 2), lambda: (_g(*_IMAGES), _f(8, 64, 28, 28))),
)  # fmt: skip

_LOSSES = (
    _case("cross_entropy", lambda x, y: F.cross_entropy(x, y), lambda: (_f(*_ROWS), _i(1024, 1024))),
    _case("cross_entropy_step", lambda x, y: F.cross_entropy(x, y), lambda: (_g(*_ROWS), _i(1024, 1024))),
    _case("mse_step", lambda x, y: F.mse_loss(x, y), lambda: (_g(*_ROWS), _f(*_ROWS))),
    _case("bce_logits_step", lambda x, y: F.binary_cross_entropy_with_logits(x, y), lambda: (
        _g(*_ROWS), torch.rand(_ROWS))),
    _case("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y), lambda: (_f(*_ROWS), _f(*_ROWS))),
    _case("kl_div", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), lambda: (
        _f(*_ROWS), _f(*_ROWS))),
    _case("cosine_similarity", lambda x, y: F.cosine_similarity(x, y), lambda: (_f(*_ROWS), _f(*_ROWS))),
)  # fmt: skip

SURVEY_CASES = (*_POINTWISE, *_BROADCASTS, *_REDUCTIONS, *_NORMS, *_MOVES, *_IMAGE_OPS, *_LOSSES)
