"""Classifiers of torchvision, with random weights; the library is imported where it is used."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models.case import Built, image_batch


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), targets)


def torchvision_model(name: str, batch: int, pixels: int) -> Built:
    """torchvision's classifier of that name, on `batch` images of `pixels` x `pixels`."""
    module: nn.Module = importlib.import_module("torchvision.models").get_model(name, weights=None)
    return Built(module, {"x": image_batch(batch, pixels)}, torch.randint(1000, (batch,)), _loss)
