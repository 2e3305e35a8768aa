"""Defines the suite's other models: recurrent, a recommender, in the frequency domain, with control flow."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cuesta.tools.models.lstm import LSTMLanguageModel
from cuesta.tools.models.suite.case import SuiteCase


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


OTHERS = (
    SuiteCase(
        "LSTM",
        lambda: LSTMLanguageModel(50, 16, 2, 0.0),
        lambda batch: {"tokens": torch.randint(50, (batch, 6))},
    ),
    SuiteCase(
        "a recommender (embedding bags)",
        Recommender,
        lambda batch: {"numbers": torch.randn(batch, 4), "ids": torch.randint(50, (batch, 5))},
    ),
    SuiteCase("FFT", SpectralMixer, lambda batch: {"x": torch.randn(batch, 16, 8)}),
    SuiteCase(
        "control flow by data",
        Deciding,
        lambda batch: {"x": torch.randn(batch, 8)},
        breaks="each `if` asks for a number",
    ),
)
