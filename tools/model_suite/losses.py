"""Makes a loss of whatever a module returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private import pytree


def outputs_of(tree: Any) -> list[Tensor]:
    """The floating-point tensors of a module's output, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def loss_of(tree: Any) -> Tensor:
    """A loss that uses every output, each element with a different weight."""
    return torch.stack(list(_losses(tree))).sum()


def _losses(tree: Any) -> Iterator[Tensor]:
    for output in outputs_of(tree):
        weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view(output.shape)
        yield (output * weights).square().mean()
