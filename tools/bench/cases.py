"""The things that cuesta-bench measures: single kernels, call overhead, and models in eval and training."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import record_function

from cuesta.tools.models import Built
from cuesta.tools.models.densenet import densenet
from cuesta.tools.models.lstm import lstm
from cuesta.tools.models.resnet import resnet
from cuesta.tools.models.transformer import bert, bert_encoder, gpt2, llama, vit

FORWARD, BACKWARD = "bench:forward", "bench:backward"


@dataclass(frozen=True)
class Workload:
    """`function(*arguments)` is what gets compiled.

    Without parameters a call is that, without gradients. With parameters the function returns a loss, and a call is
    a training step: forward, loss, backward. With an optimizer, which is made of the parameters, the whole step is
    compiled as one function, from zero_grad to the optimizer's step.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    parameters: tuple[Tensor, ...] = ()
    optimizer: Callable[[tuple[Tensor, ...]], torch.optim.Optimizer] | None = None

    def compiled(self, backend: str, mode: str | None = None) -> Callable[[], Any]:
        """One call on `backend` ("eager" for none), as a function without arguments; `mode` is torch.compile's."""

        def run(function: Callable[..., Any], whole: bool) -> Callable[..., Any]:
            function = _of_its_own(function, re.sub(r"\W", "_", f"{backend}_{mode}" if mode else backend))
            if backend == "eager":
                return function
            return torch.compile(function, backend=backend, mode=mode, fullgraph=whole)

        if self.optimizer is not None:
            # Dynamo breaks the graph at backward.
            return self._plain_call(run(self._whole_step(self.optimizer(self.parameters)), False))
        once = run(self.function, True)
        return self._training_call(once) if self.parameters else self._plain_call(once)

    def results(self, outcome: Any) -> list[Tensor]:
        """The tensors to compare after a call that returned `outcome`; gradients as copies."""
        leaves = [t for t in torch.utils._pytree.tree_leaves(outcome) if isinstance(t, Tensor)]
        gradients = [p.grad.clone() for p in self.parameters if p.grad is not None]
        return [leaf.detach() for leaf in leaves] + gradients

    def _plain_call(self, run: Callable[..., Any]) -> Callable[[], Any]:
        def call() -> Any:
            return run(*self.arguments)

        return call

    def _whole_step(self, optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
        loss_of = self.function

        def step(*arguments: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*arguments)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def _training_call(self, run: Callable[..., Any]) -> Callable[[], Any]:
        def call() -> Any:
            for parameter in self.parameters:
                parameter.grad = None
            with record_function(FORWARD):
                loss = run(*self.arguments)
            with record_function(BACKWARD):
                loss.backward()
            return loss

        return call


def _of_its_own(function: Callable[..., Any], suffix: str) -> Callable[..., Any]:
    """The function with a code object of its own.

    Dynamo keeps one list of compiled code per code object: the backend that comes second in it would pay for the
    first one's guards in every call.
    """
    name = f"{function.__name__}_{suffix}"
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


@dataclass(frozen=True)
class BenchCase:
    """A named workload, built when it is wanted."""

    name: str
    build: Callable[[], Workload]

    def make(self) -> Workload:
        """The workload, from a fixed seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()


def _softmax() -> Workload:
    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    return Workload(softmax, (torch.randn(12, 256, 256),))


def _bias_gelu() -> Workload:
    def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(x + bias)

    return Workload(bias_gelu, (torch.randn(512, 3072), torch.randn(3072)))


def _layer_norm_residual() -> Workload:
    def layer_norm_residual(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x + residual, (768,), weight, bias)

    return Workload(layer_norm_residual, tuple(torch.randn(s) for s in ((1024, 768), (1024, 768), (768,), (768,))))


def _rms_norm() -> Workload:
    def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    return Workload(rms_norm, (torch.randn(1024, 768), torch.randn(768)))


def _cross_entropy() -> Workload:
    def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)

    return Workload(cross_entropy, (torch.randn(256, 8192), torch.randint(8192, (256,))))


def _pointwise_chain(size: int) -> Workload:
    def chain(x: Tensor, y: Tensor) -> Tensor:
        z = torch.sigmoid(x * 1.5 + y)
        return torch.relu(z - 0.25) * torch.exp(-z) + torch.abs(y)

    return Workload(chain, (torch.randn(size, size), torch.randn(size, size)))


def _three_ops() -> Workload:
    def three_ops(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x * y + 1)

    return Workload(three_ops, (torch.randn(8, 8), torch.randn(8, 8)))


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
    BenchCase("softmax_12x256x256", _softmax),
    BenchCase("bias_gelu_512x3072", _bias_gelu),
    BenchCase("layer_norm_residual_1024x768", _layer_norm_residual),
    BenchCase("rms_norm_1024x768", _rms_norm),
    BenchCase("cross_entropy_256x8192", _cross_entropy),
    BenchCase("pointwise10_1024x1024", lambda: _pointwise_chain(1024)),
    BenchCase("pointwise10_64x64", lambda: _pointwise_chain(64)),
    BenchCase("call_overhead_8x8", _three_ops),
    BenchCase("bert_base_eval_2x128", lambda: _evaluation(bert_encoder())),
    BenchCase("bert_base_train_2x128", lambda: _training(bert())),
    BenchCase("gpt2_eval_1x128", lambda: _evaluation(gpt2())),
    BenchCase("gpt2_train_1x128", lambda: _training(gpt2())),
    BenchCase("resnet18_eval_2x224", lambda: _evaluation(resnet((2, 2, 2, 2), deep=False))),
    BenchCase("resnet18_train_2x224", lambda: _training(resnet((2, 2, 2, 2), deep=False))),
    BenchCase("resnet50_eval_2x224", lambda: _evaluation(resnet((3, 4, 6, 3), deep=True))),
    BenchCase("resnet50_train_2x224", lambda: _training(resnet((3, 4, 6, 3), deep=True))),
    BenchCase("densenet121_eval_2x224", lambda: _evaluation(densenet((6, 12, 24, 16)))),
    BenchCase("vit_b_eval_2x224", lambda: _evaluation(vit())),
    BenchCase("llama_eval_2x128", lambda: _evaluation(llama())),
    BenchCase("lstm_eval_8x32", lambda: _evaluation(lstm())),
)


def find_case(name: str) -> BenchCase:
    """The case called `name`. Raises KeyError."""
    return {case.name: case for case in CASES}[name]
