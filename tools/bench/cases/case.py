"""Defines a case of the benchmark: a name, and how to make what is measured, a model or a function, on a device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, finfo, nn

from cuesta.tools.bench.cases.workload import Workload
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
    autocast: torch.dtype | None = None
    """The dtype in which training runs its products, with weights in float32."""
    whole: bool = True
    """Whether a break of the graph is an error."""

    def workload(self) -> Workload:
        module, loss = self.built.module.train(self.kind != "eval"), self.built.loss
        if self.kind == "eval":

            def evaluate(inputs: dict[str, Tensor]) -> Any:
                return module(**inputs)

            return Workload(evaluate, (self.built.inputs,), whole=self.whole)

        def train(inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
            return loss(module(**inputs), targets)

        if self.autocast:
            train = self._with_autocast(train, self.autocast)

        optimizer = torch.optim.Adam if self.kind == "adam" else None
        arguments = (self.built.inputs, self.built.targets)
        return Workload(train, arguments, tuple(module.parameters()), optimizer, self.whole)

    def _with_autocast(self, loss_of: Callable[..., Tensor], dtype: torch.dtype) -> Callable[..., Tensor]:
        device = next(self.built.module.parameters()).device.type

        def train(inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
            with torch.autocast(device, dtype):
                return loss_of(inputs, targets)

        return train

    def names(self) -> list[str]:
        """The names of the workload's parameters, in order."""
        if self.kind == "eval":
            return []
        return [name for name, _ in self.built.module.named_parameters()]

    def moved(self, seed: int) -> Model:
        """A copy with every weight moved within the rounding of a product's operands: an equally valid rounding."""
        module = copy.deepcopy(self.built.module)
        generator = torch.Generator(next(module.parameters()).device).manual_seed(seed)
        unit = finfo(self.autocast).eps / 2 if self.autocast else _unit(module)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(_moved(parameter, unit or finfo(parameter.dtype).eps / 2, generator))
        return replace(self, built=replace(self.built, module=module))

    def wider(self) -> Model:
        """A copy that computes in the arbiter's dtype, with the same weights: without autocast, if there is one."""
        if self.autocast:
            return replace(self, built=replace(self.built, module=copy.deepcopy(self.built.module)), autocast=None)
        dtype = WIDER[next(self.built.module.parameters()).dtype]
        module = copy.deepcopy(self.built.module).to(dtype)
        return replace(self, built=replace(self.built, module=module, inputs=_widened(self.built.inputs)))


@dataclass(frozen=True)
class Function:
    """A function with its arguments. If it has parameters, a call is a training step. In a copy, those that are among
    the arguments are again."""

    called: Workload

    def workload(self) -> Workload:
        return self.called

    def names(self) -> list[str]:
        return [f"parameter {index}" for index in range(len(self.called.parameters))]

    def moved(self, seed: int) -> Function:
        """A copy with every floating-point argument moved within its rounding."""

        def move(value: Tensor) -> Tensor:
            if not value.is_floating_point():
                return value
            return _moved(value, finfo(value.dtype).eps / 2, torch.Generator(value.device).manual_seed(seed))

        return self._changed(move)

    def wider(self) -> Function:
        return self._changed(_widened)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Function:
        """A copy whose arguments, and the parameters among them, are changed."""
        copies: dict[int, Tensor] = {}

        def copy_of(value: Tensor) -> Tensor:
            copied = change(value.detach()).requires_grad_(value.requires_grad)
            return copies.setdefault(id(value), copied)

        arguments = pytree.tree_map_only(Tensor, copy_of, self.called.arguments)
        parameters = tuple(copies.get(id(parameter), parameter) for parameter in self.called.parameters)
        return Function(replace(self.called, arguments=arguments, parameters=parameters))


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
class Case:
    """A named subject. If `random`, its results differ from call to call and are not compared."""

    name: str
    build: Callable[[], Subject]
    random: bool = False
    stand_in: Callable[[], Subject] | None = None
    """What contenders are judged on, if the subject's own results do not tell right from wrong: where rounding changes
    one token of a text, all tokens after it are others."""

    def make(self, device: torch.device | None = None) -> Subject:
        """The subject on a device (the CPU), from a fixed seed."""
        return _made(self.build, device)

    def make_stand_in(self, device: torch.device | None = None) -> Subject | None:
        """What stands in for the subject on a device (the CPU), from a fixed seed."""
        return None if self.stand_in is None else _made(self.stand_in, device)


def _made(build: Callable[[], Subject], device: torch.device | None) -> Subject:
    with torch.random.fork_rng(devices=[]), torch.device(device or "cpu"):
        torch.manual_seed(0)
        return build()


def model(
    name: str,
    build: Callable[[], Built],
    kind: Kind,
    dtype: torch.dtype = F32,
    *,
    nhwc: bool = False,
    random: bool = False,
    autocast: torch.dtype | None = None,
    whole: bool = True,
) -> Case:
    """The case of a model that computes in `dtype`; `nhwc`: weights and images in channels_last. `autocast` and `whole`
    are those of `Model`."""

    def make() -> Model:
        built = build()
        layout: dict[str, Any] = {"memory_format": torch.channels_last} if nhwc else {}
        inputs = {k: v.to(dtype, **layout) if v.is_floating_point() else v for k, v in built.inputs.items()}
        # Some modules make a parameter by torch.Tensor(…), which is on the CPU whatever the default device.
        module = built.module.to(torch.get_default_device(), dtype, **layout)
        return Model(Built(module, inputs, built.targets, built.loss), kind, autocast, whole)

    return Case(name, make, random)


def function(name: str, called: Callable[[], Workload]) -> Case:
    """The case of a function."""
    return Case(name, lambda: Function(called()))
