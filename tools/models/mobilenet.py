"""Defines MobileNetV3-Large (Howard et al. 2019, https://arxiv.org/abs/1905.02244, table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Row(NamedTuple):
    """A block: kernel size, expanded and output channels, squeeze-and-excite, hard swish (or relu), stride."""

    kernel: int
    expanded: int
    outputs: int
    excites: bool
    swishes: bool
    stride: int


LARGE = (
    Row(3, 16, 16, False, False, 1),
    Row(3, 64, 24, False, False, 2),
    Row(3, 72, 24, False, False, 1),
    Row(5, 72, 40, True, False, 2),
    *[Row(5, 120, 40, True, False, 1)] * 2,
    Row(3, 240, 80, False, True, 2),
    Row(3, 200, 80, False, True, 1),
    *[Row(3, 184, 80, False, True, 1)] * 2,
    Row(3, 480, 112, True, True, 1),
    Row(3, 672, 112, True, True, 1),
    Row(5, 672, 160, True, True, 2),
    *[Row(5, 960, 160, True, True, 1)] * 2,
)


def _conv_norm(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01))


def _divisible(channels: float) -> int:
    """The nearest multiple of 8, or the next one if the nearest is below 90 % of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


class SqueezeExcite(nn.Module):
    """Squeeze-and-excite: scales each channel by a factor that a small network computes from all channel means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = _divisible(channels / 4)
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        means = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(torch.relu(self.down(means))))


class Block(nn.Module):
    """Inverted residual block: expands the channels, convolves them depthwise, and projects them to the outputs."""

    def __init__(self, inputs: int, row: Row) -> None:
        super().__init__()
        act: type[nn.Module] = nn.Hardswish if row.swishes else nn.ReLU
        expand = [*_conv_norm(inputs, row.expanded), act()] if row.expanded != inputs else []
        depthwise = [*_conv_norm(row.expanded, row.expanded, row.kernel, row.stride, row.expanded), act()]
        excite = [SqueezeExcite(row.expanded)] if row.excites else []
        self.body = nn.Sequential(*expand, *depthwise, *excite, *_conv_norm(row.expanded, row.outputs))
        self.residual = inputs == row.outputs and row.stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNetV3(nn.Module):
    """Images N x 3 x H x W to logits N x classes."""

    def __init__(self, rows: Sequence[Row] = LARGE, *, classes: int = 1000, width: int = 16, last: int = 1280) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv_norm(3, width, 3, 2), nn.Hardswish()]
        channels = width
        for row in rows:
            layers.append(Block(channels, row))
            channels = row.outputs
        self.features = nn.Sequential(*layers, *_conv_norm(channels, 6 * channels), nn.Hardswish())
        self.head = nn.Sequential(nn.Linear(6 * channels, last), nn.Hardswish(), nn.Linear(last, classes))

    def forward(self, image: Tensor) -> Tensor:
        logits: Tensor = self.head(F.adaptive_avg_pool2d(self.features(image), 1).flatten(1))
        return logits
