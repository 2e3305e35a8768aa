"""The cases of cuesta-bench on a CPU: kernels, call overhead, and models in eval and training."""

from __future__ import annotations

from cuesta.tools.bench.cases.case import model
from cuesta.tools.bench.cases.kernels import KERNEL_CASES
from cuesta.tools.models import published

CPU_CASES = (
    *KERNEL_CASES,
    model("bert_base_eval_2x128", published("bert_encoder"), "eval"),
    model("bert_base_train_2x128", published("bert"), "train"),
    model("gpt2_eval_1x128", published("gpt2"), "eval"),
    model("gpt2_train_1x128", published("gpt2"), "train"),
    model("resnet18_eval_2x224", published("resnet18"), "eval"),
    model("resnet18_train_2x224", published("resnet18"), "train"),
    model("resnet50_eval_2x224", published("resnet50"), "eval"),
    model("resnet50_train_2x224", published("resnet50"), "train"),
    model("densenet121_eval_2x224", published("densenet121"), "eval"),
    model("densenet121_eval_4x128", published("densenet121", batch=4, pixels=128), "eval"),
    model("densenet121_train_4x128", published("densenet121", batch=4, pixels=128), "train"),
    model("mobilenet_v3_eval_2x224", published("mobilenet_v3"), "eval"),
    model("mobilenet_v3_train_2x224", published("mobilenet_v3"), "train"),
    model("vit_b_eval_2x224", published("vit"), "eval"),
    model("vit_b_train_2x224", published("vit"), "train"),
    model("llama_eval_2x128", published("llama"), "eval"),
    model("llama_eval_1x256", published("llama", batch=1, length=256), "eval"),
    model("llama_train_1x256", published("llama", batch=1, length=256), "train"),
    model("lstm_eval_8x32", published("lstm"), "eval"),
    model("lstm_train_8x32", published("lstm"), "train"),
)
