"""The cases of cuesta-bench on a CPU: kernels, call overhead, and models in eval and training."""

from __future__ import annotations

from cuesta.tools.bench.cases.case import model
from cuesta.tools.bench.cases.kernels import KERNEL_CASES
from cuesta.tools.models.densenet import densenet
from cuesta.tools.models.lstm import lstm
from cuesta.tools.models.mobilenet import mobilenet_v3
from cuesta.tools.models.resnet import resnet
from cuesta.tools.models.transformer import bert, bert_encoder, gpt2, llama, vit

CPU_CASES = (
    *KERNEL_CASES,
    model("bert_base_eval_2x128", lambda: bert_encoder(), "eval"),
    model("bert_base_train_2x128", lambda: bert(), "train"),
    model("gpt2_eval_1x128", lambda: gpt2(), "eval"),
    model("gpt2_train_1x128", lambda: gpt2(), "train"),
    model("resnet18_eval_2x224", lambda: resnet((2, 2, 2, 2), deep=False), "eval"),
    model("resnet18_train_2x224", lambda: resnet((2, 2, 2, 2), deep=False), "train"),
    model("resnet50_eval_2x224", lambda: resnet((3, 4, 6, 3), deep=True), "eval"),
    model("resnet50_train_2x224", lambda: resnet((3, 4, 6, 3), deep=True), "train"),
    model("densenet121_eval_2x224", lambda: densenet((6, 12, 24, 16)), "eval"),
    model("densenet121_eval_4x128", lambda: densenet((6, 12, 24, 16), batch=4, pixels=128), "eval"),
    model("densenet121_train_4x128", lambda: densenet((6, 12, 24, 16), batch=4, pixels=128), "train"),
    model("mobilenet_v3_eval_2x224", lambda: mobilenet_v3(), "eval"),
    model("mobilenet_v3_train_2x224", lambda: mobilenet_v3(), "train"),
    model("vit_b_eval_2x224", lambda: vit(), "eval"),
    model("vit_b_train_2x224", lambda: vit(), "train"),
    model("llama_eval_2x128", lambda: llama(), "eval"),
    model("llama_eval_1x256", lambda: llama(batch=1, length=256), "eval"),
    model("llama_train_1x256", lambda: llama(batch=1, length=256), "train"),
    model("lstm_eval_8x32", lambda: lstm(), "eval"),
    model("lstm_train_8x32", lambda: lstm(), "train"),
)
