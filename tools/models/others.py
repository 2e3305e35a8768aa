"""Defines small networks of the suite: a recommender, a mixer by FFT, control flow, a diffusion model's blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Recommender(nn.Module):
    """After DLRM (Naumov et al. 2019, https://arxiv.org/abs/1906.00091): id bags, numbers, and products of both."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, width, mode=mode) for mode in ("sum", "mean"))
        self.bottom = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(3 * width + 9, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        parts = [self.bottom(numbers), *(bag(ids) for bag in self.bags)]
        features = torch.stack(parts, 1)
        products = (features @ features.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([*parts, products], 1)))


class SpectralMixer(nn.Module):
    """After FNet (Lee-Thorp et al. 2021, https://arxiv.org/abs/2105.03824), with a learnt filter added."""

    def __init__(self, length: int = 16, width: int = 8) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(length // 2 + 1, width, 2) * 0.1)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed = torch.fft.fft2(x, dim=(-2, -1)).real
        filtered = torch.fft.irfft(torch.fft.rfft(x, dim=-2) * torch.view_as_complex(self.filter), x.shape[-2], dim=-2)
        return self.leave(self.norm(x + mixed + filtered))


class Deciding(nn.Module):
    """Has two branches that depend on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.ways[0](x) if x.mean() > 0 else self.ways[1](x))
        if x.abs().max() > 0.5:
            x = torch.softmax(x, -1)
        return self.ways[1](x) * 2


class UNetBlock(nn.Module):
    """The blocks of a diffusion model's U-Net: time embedding, residual convolutions, attention, resampling."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(16, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.first = nn.Sequential(nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1))
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * channels)
        self.attention = nn.MultiheadAttention(2 * channels, 4, batch_first=True)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.leave = nn.Sequential(nn.GroupNorm(4, 2 * channels), nn.SiLU(), nn.Conv2d(2 * channels, 3, 3, padding=1))

    def forward(self, image: Tensor, step: Tensor) -> Tensor:
        waves = torch.exp(-torch.arange(8, device=step.device, dtype=image.dtype)) * step[:, None]
        moved = self.time(torch.cat([waves.sin(), waves.cos()], -1))[:, :, None, None]
        skip = self.enter(image)
        skip = skip + self.first(skip + moved)
        low = self.down(skip)
        rows = self.norm(low).flatten(2).transpose(1, 2)
        low = low + self.attention(rows, rows, rows, need_weights=False)[0].transpose(1, 2).reshape(low.shape)
        return self.leave(torch.cat([self.up(low), skip], 1))
