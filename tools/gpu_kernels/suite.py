"""Lists the models whose kernels are checked: the benchmarks' models, in their dtypes on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cuesta.tools.models import Built
from cuesta.tools.models.densenet import densenet
from cuesta.tools.models.resnet import resnet
from cuesta.tools.models.transformer import bert, gpt2, llama, vit

Size = Literal["small", "full"]


@dataclass(frozen=True)
class SuiteModel:
    """A model with real widths. `small` has few layers and small batches; `full` is what the benchmarks run.

    Layers of a transformer are alike, so two layers have all of its unique kernels.
    """

    name: str
    small: Callable[[], Built]
    full: Callable[[], Built]
    dtype: torch.dtype
    channels_last: bool = False

    def module(self, size: Size) -> tuple[nn.Module, dict[str, Any]]:
        """The model as a module of one training step, and its arguments."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            built = self.small() if size == "small" else self.full()
        form = torch.channels_last if self.channels_last else torch.contiguous_format
        step = Step(built).to(dtype=self.dtype).to(memory_format=form)  # type: ignore[call-overload]
        return step, {name: self._placed(x) for name, x in built.inputs.items()}

    def _placed(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        form = torch.channels_last if self.channels_last and x.dim() == 4 else torch.contiguous_format
        return x.to(self.dtype, memory_format=form)


class Step(nn.Module):
    """Returns the outputs in eval mode, the loss in training mode."""

    targets: Tensor

    def __init__(self, built: Built) -> None:
        super().__init__()
        self.model = built.module
        self.loss = built.loss
        self.register_buffer("targets", built.targets)

    def forward(self, **inputs: Tensor) -> Any:
        outputs = self.model(**inputs)
        return self.loss(outputs, self.targets) if self.training else outputs


#: Small models have few rows, except vit: its 11 x 197 rows are enough for sums over them to be split.
SUITE = (
    SuiteModel(
        "bert-base",
        small=lambda: bert(layers=2, batch=2, length=80),
        full=lambda: bert(layers=2, batch=16, length=512),
        dtype=torch.bfloat16,
    ),
    SuiteModel(
        "gpt2",
        small=lambda: gpt2(layers=2, batch=1, length=160),
        full=lambda: gpt2(layers=2, batch=4, length=1024),
        dtype=torch.bfloat16,
    ),
    SuiteModel(
        "llama",
        small=lambda: llama(layers=2, hidden=2048, batch=1, length=160),
        full=lambda: llama(layers=2, hidden=2048, batch=1, length=2048),
        dtype=torch.bfloat16,
    ),
    SuiteModel(
        "vit",
        small=lambda: vit(layers=2, batch=11),
        full=lambda: vit(layers=2, hidden=1024, batch=16),
        dtype=torch.bfloat16,
    ),
    SuiteModel(
        "resnet50",
        small=lambda: resnet((1, 1, 2, 1), deep=True, batch=4, pixels=96),
        full=lambda: resnet((3, 4, 6, 3), deep=True, batch=32),
        dtype=torch.bfloat16,
        channels_last=True,
    ),
    SuiteModel(
        "densenet121",
        small=lambda: densenet((2, 2, 2, 2), batch=4, pixels=96),
        full=lambda: densenet((6, 12, 24, 16), batch=16, pixels=128),
        dtype=torch.float32,
    ),
)
