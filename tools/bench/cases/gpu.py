"""The cases of `cuesta-bench --device cuda`: models at their published size, and small functions."""

from __future__ import annotations

from cuesta.tools.bench.cases import functions
from cuesta.tools.bench.cases.case import BF16, F16, F32, function, model
from cuesta.tools.models import Built
from cuesta.tools.models.torchvision import torchvision_model
from cuesta.tools.models.transformer import bert, gpt2, llama, vit


def _bert(batch: int, length: int, dropout: float = 0.0) -> Built:
    return bert(batch=batch, length=length, dropout=dropout, masked=False)


def _gpt2(batch: int, length: int, dropout: float = 0.0) -> Built:
    return gpt2(batch=batch, length=length, dropout=dropout)


def _llama_1b() -> Built:
    """A Llama of 1.2 billion parameters."""
    return llama(layers=16, hidden=2048, inner=8192, vocabulary=128256, tied=True, batch=1, length=2048)


def _vit_large() -> Built:
    return vit(layers=24, hidden=1024, batch=16)


GPU_CASES = (
    model("bert_base_eval_bf16_16x512", lambda: _bert(16, 512), "eval", BF16),
    model("bert_base_eval_bf16_16x128", lambda: _bert(16, 128), "eval", BF16),
    model("bert_base_train_bf16_16x512", lambda: _bert(16, 512), "train", BF16),
    model("bert_base_train_dropout_bf16_16x512", lambda: _bert(16, 512, 0.1), "train", BF16, random=True),
    model("bert_base_eval_f16_1x128", lambda: _bert(1, 128), "eval", F16),
    model("gpt2_eval_bf16_4x1024", lambda: _gpt2(4, 1024), "eval", BF16),
    model("gpt2_train_bf16_4x1024", lambda: _gpt2(4, 1024), "train", BF16),
    model("gpt2_train_dropout_bf16_4x1024", lambda: _gpt2(4, 1024, 0.1), "train", BF16, random=True),
    model("resnet50_eval_bf16_32x224", lambda: torchvision_model("resnet50", 32, 224), "eval", BF16, nhwc=True),
    model("resnet50_train_bf16_32x224", lambda: torchvision_model("resnet50", 32, 224), "train", BF16, nhwc=True),
    model("densenet121_eval_f32_16x128", lambda: torchvision_model("densenet121", 16, 128), "eval", F32),
    model("densenet121_adam_f32_16x128", lambda: torchvision_model("densenet121", 16, 128), "adam", F32),
    model("vit_l_eval_bf16_16x224", lambda: _vit_large(), "eval", BF16),
    model("vit_l_train_bf16_16x224", lambda: _vit_large(), "train", BF16),
    model("llama_1b_eval_bf16_1x2048", lambda: _llama_1b(), "eval", BF16),
    model("llama_1b_train_bf16_1x2048", lambda: _llama_1b(), "train", BF16),
    function("fn_chain_4096x1024", lambda: functions.chain(4096, 1024)),
    function("fn_softmax_4096x1024", lambda: functions.softmax(4096, 1024)),
    function("fn_softmax_looped_256x50257", lambda: functions.softmax(256, 50257, BF16)),
    function("fn_layer_norm_residual_4096x1024", lambda: functions.layer_norm_residual(4096, 1024)),
    function("fn_transpose_4096x1024", lambda: functions.transpose(4096, 1024)),
    function("fn_column_sum_4096x1024", lambda: functions.column_sum(4096, 1024)),
    function("fn_full_mean_4096x1024", lambda: functions.full_mean(4096, 1024)),
    function("fn_argmax_4096x1024", lambda: functions.argmax(4096, 1024)),
    function("fn_cumsum_4096x512", lambda: functions.cumsum(4096, 512)),
    function("fn_embedding_8x128", lambda: functions.embedding(4096, 1024, 8, 128)),
    function("fn_cross_entropy_512x50257", lambda: functions.cross_entropy(512, 50257)),
    function("fn_matmul_gelu_4096x1024x512", lambda: functions.matmul_gelu(4096, 1024, 512)),
    function("fn_misaligned_100000", lambda: functions.misaligned(100_000)),
    function("fn_batch_norm_32x64x56x56", lambda: functions.batch_norm(32, 64, 56)),
    function("fn_small_8x8", lambda: functions.three_ops(8)),
)
