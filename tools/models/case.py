"""Defines a model case: a module with its inputs, targets and loss, in a small and a full size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Size = Literal["small", "full"]


@dataclass(frozen=True)
class Built:
    """A module ready to run. `loss(module(**inputs), targets)` is a scalar."""

    module: nn.Module
    inputs: dict[str, Tensor]
    targets: Tensor
    loss: Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class ModelCase:
    """A named model. `small` keeps the architecture and shrinks depth and width; `full` is the published size.

    Both take the dropout probability, which models that have no dropout ignore.
    """

    name: str
    small: Callable[[float], Built]
    full: Callable[[float], Built]
    has_dropout: bool = False

    def make(self, size: Size = "small", *, dropout: float = 0.0, seed: int = 0) -> Built:
        """Builds the model in training mode; the same seed gives the same weights, inputs and targets."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return {"small": self.small, "full": self.full}[size](dropout)


def image_batch(batch: int, pixels: int) -> Tensor:
    """A batch of square RGB images, `batch` x 3 x `pixels` x `pixels`, standard normal."""
    return torch.randn(batch, 3, pixels, pixels)


def token_batch(batch: int, length: int, vocabulary: int) -> Tensor:
    """Token ids, `batch` x `length`, int64."""
    return torch.randint(vocabulary, (batch, length))
