"""Defines linear layers with weights of 8 or 4 bits, which are widened before a plain product, as users write them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GROUP = 32
"""Elements of a row of a weight of 4 bits that share a scale and a zero."""

_Module = TypeVar("_Module", bound=nn.Module)


class NarrowLinear(nn.Module, ABC):
    """A linear layer without bias, whose weight `widened` makes from what is stored."""

    @abstractmethod
    def widened(self, dtype: torch.dtype) -> Tensor:
        """The weight [N, K] in `dtype`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.widened(x.dtype))


class ScaledRows(NarrowLinear):
    """Values [N, K], and a scale for each row [N]."""

    values: Tensor
    scale: Tensor

    def widened(self, dtype: torch.dtype) -> Tensor:
        return self.values.to(dtype) * self.scale[:, None].to(dtype)


class Int8Linear(ScaledRows):
    """Values in int8."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("values", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))


class Float8Linear(ScaledRows):
    """Values in a format of floats of 8 bits."""

    def __init__(self, weight: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> None:
        super().__init__()
        scale = weight.abs().amax(1) / torch.finfo(dtype).max
        self.register_buffer("scale", scale)
        self.register_buffer("values", (weight / scale[:, None]).to(dtype))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Float8Linear:
        """What torch's `to` calls. The values keep their format where other floats are converted."""
        dtype = self.values.dtype
        self.values = self.values.view(torch.uint8)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.values = self.values.view(dtype)
        return self


class Int4Linear(NarrowLinear):
    """Two values in a byte [N, K / 2], the first in its low bits; a scale and a zero for each group of a row
    [N, K / GROUP]. An element is (value - zero) * scale."""

    packed: Tensor
    scale: Tensor
    zero: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        groups = weight.unflatten(1, (-1, GROUP))
        low, high = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
        scale = ((high - low) / 15).clamp(min=torch.finfo(weight.dtype).tiny)
        zero = (-low / scale).round()
        values = ((groups / scale[:, :, None]).round() + zero[:, :, None]).clamp(0, 15).to(torch.uint8).flatten(1)
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)
        self.register_buffer("packed", values[:, ::2] | values[:, 1::2] << 4)

    def widened(self, dtype: torch.dtype) -> Tensor:
        values = torch.stack([self.packed & 15, self.packed >> 4], 2).view(*self.scale.shape, GROUP)
        centred = values.to(dtype) - self.zero[:, :, None].to(dtype)
        return (centred * self.scale[:, :, None].to(dtype)).flatten(1)


def with_narrow_linears(module: _Module, make: Callable[[Tensor], nn.Module]) -> _Module:
    """The module, with what `make` makes of its weight in place of each linear layer without bias."""
    for name, layer in list(module.named_modules()):
        if isinstance(layer, nn.Linear):
            if layer.bias is not None:
                raise ValueError(f"{name} has a bias, which a narrow layer has not")
            with torch.no_grad():
                module.set_submodule(name, make(layer.weight))
    return module
