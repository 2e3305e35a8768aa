"""The cases of `cuesta-bench --device cuda`: models at their published size, and small functions."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.bench.cases.case import BF16, F16, F32, model
from cuesta.tools.bench.cases.functions import case, cross_entropy, ids, layer_norm_residual, normal
from cuesta.tools.models import published

_BERT = partial(published, "bert", masked=False)
_GPT2 = partial(published, "gpt2", batch=4, length=1024)
_RESNET50 = published("torchvision", network="resnet50", batch=32)
_DENSENET121 = published("torchvision", network="densenet121", batch=16, pixels=128)
_VIT_LARGE = published("vit", layers=24, hidden=1024, batch=16)
#: A Llama of 1.2 billion parameters.
_LLAMA_1B = published("llama", layers=16, hidden=2048, inner=8192, vocabulary=128256, tied=True, batch=1, length=2048)


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x.float() * 0.125, -1)


GPU_CASES = (
    model("bert_base_eval_bf16_16x512", _BERT(batch=16, length=512), "eval", BF16),
    model("bert_base_eval_bf16_16x128", _BERT(batch=16, length=128), "eval", BF16),
    model("bert_base_train_bf16_16x512", _BERT(batch=16, length=512), "train", BF16),
    model("bert_base_train_dropout_bf16_16x512", _BERT(batch=16, length=512, dropout=0.1), "train", BF16, random=True),
    model("bert_base_eval_f16_1x128", _BERT(batch=1, length=128), "eval", F16),
    model("gpt2_eval_bf16_4x1024", _GPT2(), "eval", BF16),
    model("gpt2_train_bf16_4x1024", _GPT2(), "train", BF16),
    model("gpt2_train_dropout_bf16_4x1024", _GPT2(dropout=0.1), "train", BF16, random=True),
    model("resnet50_eval_bf16_32x224", _RESNET50, "eval", BF16, nhwc=True),
    model("resnet50_train_bf16_32x224", _RESNET50, "train", BF16, nhwc=True),
    model("densenet121_eval_f32_16x128", _DENSENET121, "eval", F32),
    model("densenet121_adam_f32_16x128", _DENSENET121, "adam", F32),
    model("vit_l_eval_bf16_16x224", _VIT_LARGE, "eval", BF16),
    model("vit_l_train_bf16_16x224", _VIT_LARGE, "train", BF16),
    model("llama_1b_eval_bf16_1x2048", _LLAMA_1B, "eval", BF16),
    model("llama_1b_train_bf16_1x2048", _LLAMA_1B, "train", BF16),
    case(
        "fn_chain_4096x1024",
        lambda x, y: torch.relu(x * y + 1).tanh() * 2 - x.exp().clamp(max=3),
        lambda: (normal(4096, 1024), normal(4096, 1024)),
    ),
    case("fn_softmax_4096x1024", _softmax, lambda: (normal(4096, 1024),)),
    case("fn_softmax_looped_256x50257", _softmax, lambda: (normal(256, 50257, dtype=BF16),)),
    layer_norm_residual(4096, 1024, "fn_layer_norm_residual_4096x1024"),
    case("fn_transpose_4096x1024", lambda x: (x.t() + 1).contiguous(), lambda: (normal(4096, 1024),)),
    case("fn_column_sum_4096x1024", lambda x: x.sum(0), lambda: (normal(4096, 1024),)),
    case("fn_full_mean_4096x1024", lambda x: (x * x).mean(), lambda: (normal(4096, 1024),)),
    case("fn_argmax_4096x1024", lambda x: x.argmax(1), lambda: (normal(4096, 1024),)),
    case("fn_cumsum_4096x512", lambda x: x.cumsum(1), lambda: (normal(4096, 512),)),
    case(
        "fn_embedding_8x128",
        lambda tokens, table: F.embedding(tokens, table) * 2,
        lambda: (ids(4096, 8, 128), normal(4096, 1024)),
    ),
    cross_entropy(512, 50257, "fn_cross_entropy_512x50257"),
    case("fn_matmul_gelu_4096x1024x512", lambda x, w: F.gelu(x @ w), lambda: (normal(4096, 1024), normal(1024, 512))),
    # The argument begins one element behind the start of an allocation.
    case("fn_misaligned_100000", lambda x: x * 2 + 1, lambda: (normal(100_001)[1:],)),
    case(
        "fn_batch_norm_32x64x56x56",
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda: (normal(32, 64, 56, 56),),
    ),
    case("fn_small_8x8", lambda x: (x + 1) * 2 - x, lambda: (normal(8, 8),)),
)
