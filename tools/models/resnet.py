"""Defines ResNet (He et al. 2015, https://arxiv.org/abs/1512.03385), with the stride in the 3x3 convolution (v1.5)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); the shortcut projects where the body changes the shape."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def basic_block(inputs: int, width: int, stride: int) -> Residual:
    """The block of ResNet-18 and -34: two 3x3 convolutions."""
    body = nn.Sequential(_conv_norm(inputs, width, 3, stride), nn.ReLU(inplace=True), _conv_norm(width, width, 3))
    return Residual(body, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> Residual:
    """The block of ResNet-50 and deeper: 1x1, 3x3, and 1x1 with four times the width as output."""
    body = nn.Sequential(
        _conv_norm(inputs, width, 1),
        nn.ReLU(inplace=True),
        _conv_norm(width, width, 3, stride),
        nn.ReLU(inplace=True),
        _conv_norm(width, 4 * width, 1),
    )
    return Residual(body, inputs, 4 * width, stride)


class ResNet(nn.Module):
    """Images N x 3 x H x W to logits N x classes; one stage per entry of `blocks`, each twice as wide."""

    def __init__(self, blocks: Sequence[int], *, deep: bool, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        make_block, expansion = (bottleneck, 4) if deep else (basic_block, 1)
        self.stem = nn.Sequential(_conv_norm(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        stages: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                stages.append(make_block(channels, width << stage, stride))
                channels = (width << stage) * expansion
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        features = self.stages(self.stem(image))
        return self.head(F.adaptive_avg_pool2d(features, 1).flatten(1))
