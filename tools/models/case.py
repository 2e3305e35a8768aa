"""Defines the two kinds of rows in the registry: models with targets and a loss, and models at any batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
    """A named model. `build` takes sizes: those of `full` are the published ones, and those of `small`, in their place,
    keep the architecture and shrink depth and width."""

    name: str
    build: Callable[..., Built]
    small: Mapping[str, Any]
    full: Mapping[str, Any]
    has_dropout: bool = False

    def make(self, size: Size = "small", *, dropout: float = 0.0, seed: int = 0, **others: Any) -> Built:
        """Builds the model in training mode; the same seed gives the same weights, inputs and targets. `others` are
        sizes in place of those of `size`. Models that have no dropout ignore its probability."""
        sizes = {**self.full, **(self.small if size == "small" else {}), **others}
        if self.has_dropout:
            sizes["dropout"] = dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build(**sizes)


@dataclass(frozen=True)
class SuiteCase:
    """A small model that the model suite compares with eager, at any batch size. `inputs(batch)` are the arguments by
    name; `breaks` says why Dynamo breaks its graph, if so."""

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[int], Mapping[str, Tensor]]
    breaks: str = ""


def token_batch(batch: int, length: int, vocabulary: int) -> Tensor:
    """Token ids, `batch` x `length`, int64."""
    return torch.randint(vocabulary, (batch, length))


def classifier(
    make: Callable[..., nn.Module], name: str = "image", loss: Callable[[Any, Tensor], Tensor] = F.cross_entropy
) -> Callable[..., Built]:
    """The `build` of a classifier with a batch of random square RGB images, passed as `name`, and of random labels.
    `make` takes the sizes other than the batch's."""

    def build(*, batch: int = 2, pixels: int = 224, classes: int = 1000, **sizes: Any) -> Built:
        module = make(classes=classes, **sizes)
        return Built(module, {name: torch.randn(batch, 3, pixels, pixels)}, torch.randint(classes, (batch,)), loss)

    return build
