"""The cases of cuesta-bench on a CPU: kernels, call overhead, and models in eval and training."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from cuesta.tools.bench.kernel_cases import KERNEL_CASES
from cuesta.tools.bench.workload import BenchCase, Workload
from cuesta.tools.models import Built
from cuesta.tools.models.densenet import densenet
from cuesta.tools.models.lstm import lstm
from cuesta.tools.models.mobilenet import mobilenet_v3
from cuesta.tools.models.resnet import resnet
from cuesta.tools.models.transformer import bert, bert_encoder, gpt2, llama, vit


def _evaluation(built: Built) -> Workload:
    module = built.module.eval()

    def evaluate(inputs: dict[str, Tensor]) -> Any:
        return module(**inputs)

    return Workload(evaluate, (built.inputs,))


def _training(built: Built) -> Workload:
    module, loss = built.module.train(), built.loss

    def train(inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return loss(module(**inputs), targets)

    return Workload(train, (built.inputs, built.targets), tuple(module.parameters()))


CASES = (
    *KERNEL_CASES,
    BenchCase("bert_base_eval_2x128", lambda: _evaluation(bert_encoder())),
    BenchCase("bert_base_train_2x128", lambda: _training(bert())),
    BenchCase("gpt2_eval_1x128", lambda: _evaluation(gpt2())),
    BenchCase("gpt2_train_1x128", lambda: _training(gpt2())),
    BenchCase("resnet18_eval_2x224", lambda: _evaluation(resnet((2, 2, 2, 2), deep=False))),
    BenchCase("resnet18_train_2x224", lambda: _training(resnet((2, 2, 2, 2), deep=False))),
    BenchCase("resnet50_eval_2x224", lambda: _evaluation(resnet((3, 4, 6, 3), deep=True))),
    BenchCase("resnet50_train_2x224", lambda: _training(resnet((3, 4, 6, 3), deep=True))),
    BenchCase("densenet121_eval_2x224", lambda: _evaluation(densenet((6, 12, 24, 16)))),
    BenchCase("densenet121_eval_4x128", lambda: _evaluation(densenet((6, 12, 24, 16), batch=4, pixels=128))),
    BenchCase("densenet121_train_4x128", lambda: _training(densenet((6, 12, 24, 16), batch=4, pixels=128))),
    BenchCase("mobilenet_v3_eval_2x224", lambda: _evaluation(mobilenet_v3())),
    BenchCase("mobilenet_v3_train_2x224", lambda: _training(mobilenet_v3())),
    BenchCase("vit_b_eval_2x224", lambda: _evaluation(vit())),
    BenchCase("vit_b_train_2x224", lambda: _training(vit())),
    BenchCase("llama_eval_2x128", lambda: _evaluation(llama())),
    BenchCase("llama_eval_1x256", lambda: _evaluation(llama(batch=1, length=256))),
    BenchCase("llama_train_1x256", lambda: _training(llama(batch=1, length=256))),
    BenchCase("lstm_eval_8x32", lambda: _evaluation(lstm())),
    BenchCase("lstm_train_8x32", lambda: _training(lstm())),
)


def find_case(name: str) -> BenchCase:
    """The case called `name`. Raises KeyError."""
    return {case.name: case for case in CASES}[name]
