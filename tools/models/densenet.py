"""Defines DenseNet (Huang et al. 2016, https://arxiv.org/abs/1608.06993)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _norm_conv(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
    )


class DenseLayer(nn.Module):
    """Appends `growth` channels computed from all the channels before them."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_norm_conv(channels, 4 * growth, 1), _norm_conv(4 * growth, growth, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], dim=1)


class DenseNet(nn.Module):
    """Images N x 3 x H x W to logits N x classes; between two blocks a transition halves channels and size."""

    def __init__(self, blocks: Sequence[int], *, growth: int = 32, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        layers: list[nn.Module] = []
        for index, count in enumerate(blocks):
            if index > 0:
                layers += [_norm_conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
            for _ in range(count):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        self.layers = nn.Sequential(*layers, nn.BatchNorm2d(channels))
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        features = torch.relu(self.layers(self.stem(image)))
        return self.head(F.adaptive_avg_pool2d(features, 1).flatten(1))
