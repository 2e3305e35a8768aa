"""Defines the cases of `cuesta-bench --device cuda`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, finfo, nn

from cuesta.tools.bench.gpu import functions, models
from cuesta.tools.bench.gpu.functions import Called
from cuesta.tools.bench.workload import Workload
from cuesta.tools.models import Built
from cuesta.torch_private import pytree

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32

#: A case's dtype → the wider dtype of its arbiter, the computation that results are judged against.
WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float64}

Kind = Literal["eval", "train", "adam"]


@dataclass(frozen=True)
class Model:
    """A model with its inputs, to be evaluated, trained without an optimizer, or trained with Adam."""

    built: Built
    kind: Kind

    def workload(self) -> Workload:
        module, loss = self.built.module.train(self.kind != "eval"), self.built.loss
        if self.kind == "eval":

            def evaluate(inputs: dict[str, Tensor]) -> Any:
                return module(**inputs)

            return Workload(evaluate, (self.built.inputs,))

        def train(inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
            return loss(module(**inputs), targets)

        optimizer = torch.optim.Adam if self.kind == "adam" else None
        arguments = (self.built.inputs, self.built.targets)
        return Workload(train, arguments, tuple(module.parameters()), optimizer)

    def names(self) -> list[str]:
        """The names of the workload's parameters, in order."""
        if self.kind == "eval":
            return []
        return [name for name, _ in self.built.module.named_parameters()]

    def moved(self, seed: int) -> Model:
        """A copy with every weight moved within the rounding of a product's operands: an equally valid rounding."""
        module = copy.deepcopy(self.built.module)
        generator = torch.Generator(next(module.parameters()).device).manual_seed(seed)
        unit = _unit(module)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(_moved(parameter, unit or finfo(parameter.dtype).eps / 2, generator))
        return Model(Built(module, self.built.inputs, self.built.targets, self.built.loss), self.kind)

    def wider(self) -> Model:
        """A copy that computes in the arbiter's dtype, with the same weights."""
        dtype = WIDER[next(self.built.module.parameters()).dtype]
        module = copy.deepcopy(self.built.module).to(dtype)
        return Model(Built(module, _widened(self.built.inputs), self.built.targets, self.built.loss), self.kind)


@dataclass(frozen=True)
class Function:
    """A function with its arguments."""

    called: Called

    def workload(self) -> Workload:
        function, arguments = self.called
        return Workload(function, arguments)

    def names(self) -> list[str]:
        return []

    def moved(self, seed: int) -> Function:
        """A copy with every floating-point argument moved within its rounding."""
        function, arguments = self.called

        def move(value: Tensor) -> Tensor:
            if not value.is_floating_point():
                return value
            return _moved(value, finfo(value.dtype).eps / 2, torch.Generator(value.device).manual_seed(seed))

        return Function((function, pytree.tree_map_only(Tensor, move, arguments)))

    def wider(self) -> Function:
        function, arguments = self.called
        return Function((function, _widened(arguments)))


Subject = Model | Function


def _unit(module: nn.Module) -> float | None:
    """TF32's rounding unit (2^-11) for a float32 module whose convolutions round operands to TF32, else None."""
    rounds = torch.backends.cudnn.allow_tf32 and any(isinstance(part, nn.Conv2d) for part in module.modules())
    return 2**-11 if rounds and next(module.parameters()).dtype == F32 else None


def _moved(value: Tensor, unit: float, generator: torch.Generator) -> Tensor:
    noise = torch.randn(value.shape, dtype=torch.float32, device=value.device, generator=generator)
    return (value.double() * (1 + unit * noise)).to(value.dtype)


def _widened(tree: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: t.to(WIDER.get(t.dtype, t.dtype)), tree)


@dataclass(frozen=True)
class GpuCase:
    """A named subject. If `random`, its results differ from call to call and are not compared."""

    name: str
    build: Callable[[], Subject]
    random: bool = False

    def make(self, device: torch.device) -> Subject:
        """The subject on a device, from a fixed seed."""
        with torch.device(device):
            torch.manual_seed(0)
            return self.build()


def model(
    name: str, build: Callable[[], Built], dtype: torch.dtype, kind: Kind, *, nhwc: bool = False, random: bool = False
) -> GpuCase:
    """The case of a model that computes in `dtype`; `nhwc`: weights and images in channels_last."""

    def make() -> Model:
        built = build()
        layout: dict[str, Any] = {"memory_format": torch.channels_last} if nhwc else {}
        inputs = {k: v.to(dtype, **layout) if v.is_floating_point() else v for k, v in built.inputs.items()}
        return Model(Built(built.module.to(dtype=dtype, **layout), inputs, built.targets, built.loss), kind)

    return GpuCase(name, make, random)


def function(name: str, called: Callable[[], Called]) -> GpuCase:
    """The case of a function."""
    return GpuCase(name, lambda: Function(called()))


CASES = (
    model("bert_base_eval_bf16_16x512", lambda: models.bert_base(16, 512), BF16, "eval"),
    model("bert_base_eval_bf16_16x128", lambda: models.bert_base(16, 128), BF16, "eval"),
    model("bert_base_train_bf16_16x512", lambda: models.bert_base(16, 512), BF16, "train"),
    model("bert_base_train_dropout_bf16_16x512", lambda: models.bert_base(16, 512, 0.1), BF16, "train", random=True),
    model("bert_base_eval_f16_1x128", lambda: models.bert_base(1, 128), F16, "eval"),
    model("gpt2_eval_bf16_4x1024", lambda: models.gpt2_small(4, 1024), BF16, "eval"),
    model("gpt2_train_bf16_4x1024", lambda: models.gpt2_small(4, 1024), BF16, "train"),
    model("gpt2_train_dropout_bf16_4x1024", lambda: models.gpt2_small(4, 1024, 0.1), BF16, "train", random=True),
    model("resnet50_eval_bf16_32x224", lambda: models.torchvision_model("resnet50", 32, 224), BF16, "eval", nhwc=True),
    model(
        "resnet50_train_bf16_32x224", lambda: models.torchvision_model("resnet50", 32, 224), BF16, "train", nhwc=True
    ),
    model("densenet121_eval_f32_16x128", lambda: models.torchvision_model("densenet121", 16, 128), F32, "eval"),
    model("densenet121_adam_f32_16x128", lambda: models.torchvision_model("densenet121", 16, 128), F32, "adam"),
    model("vit_l_eval_bf16_16x224", lambda: models.vit_large(16), BF16, "eval"),
    model("vit_l_train_bf16_16x224", lambda: models.vit_large(16), BF16, "train"),
    model("llama_1b_eval_bf16_1x2048", lambda: models.llama_1b(1, 2048), BF16, "eval"),
    model("llama_1b_train_bf16_1x2048", lambda: models.llama_1b(1, 2048), BF16, "train"),
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


def find_case(name: str) -> GpuCase:
    """The case called `name`. Raises KeyError."""
    return {case.name: case for case in CASES}[name]
