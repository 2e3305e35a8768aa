"""Lists the models whose kernels are checked: the benchmarks' models, in their dtypes on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cuesta.tools.models import Built, published
from cuesta.tools.models.case import Size


@dataclass(frozen=True)
class SuiteModel:
    """A model with real widths. `small` has few layers and small batches; `full` is what the benchmarks run.

    Layers of a transformer are alike, so two layers have all of its unique kernels.
    """

    name: str
    small: Callable[[], Built]
    full: Callable[[], Built]
    dtype: torch.dtype = torch.bfloat16
    channels_last: bool = False

    def module(self, size: Size) -> tuple[nn.Module, dict[str, Any]]:
        """The model as a module of one training step, and its arguments."""
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
    SuiteModel("bert-base", published("bert", layers=2, length=80), published("bert", layers=2, batch=16, length=512)),
    SuiteModel("gpt2", published("gpt2", layers=2, length=160), published("gpt2", layers=2, batch=4, length=1024)),
    SuiteModel(
        "llama",
        published("llama", layers=2, hidden=2048, batch=1, length=160),
        published("llama", layers=2, hidden=2048, batch=1, length=2048),
    ),
    SuiteModel("vit", published("vit", layers=2, batch=11), published("vit", layers=2, hidden=1024, batch=16)),
    SuiteModel(
        "resnet50",
        published("resnet50", blocks=(1, 1, 2, 1), batch=4, pixels=96),
        published("resnet50", batch=32),
        channels_last=True,
    ),
    SuiteModel(
        "densenet121",
        published("densenet121", blocks=(2, 2, 2, 2), batch=4, pixels=96),
        published("densenet121", batch=16, pixels=128),
        dtype=torch.float32,
    ),
)
