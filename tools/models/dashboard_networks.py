"""Defines networks of the dashboard's list that no library here has: diffusion, recommendation, graphs, points."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DLRM(nn.Module):
    """A recommender (Naumov et al. 2019, https://arxiv.org/abs/1906.00091) with Criteo's 13 numbers and 26 tables.
    `numbers` are N x 13, `ids` 26 x N."""

    pairs: Tensor

    def __init__(self, tables: int = 26, rows: int = 10_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = _perceptron(13, 512, 256, width)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)
        self.top = _perceptron(width + tables * (tables + 1) // 2, 512, 256)
        self.last = nn.Linear(256, 1)

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        features = torch.stack([dense, *(table(row[:, None]) for table, row in zip(self.tables, ids, strict=True))], 1)
        rows, columns = self.pairs
        return self.last(self.top(torch.cat([dense, (features @ features.transpose(1, 2))[:, rows, columns]], 1)))


def _perceptron(*widths: int) -> nn.Sequential:
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers)


class GraphSage(nn.Module):
    """Mean aggregation over the neighbours (Hamilton et al. 2017, https://arxiv.org/abs/1706.02216). `edges` are 2 x E:
    from and to."""

    def __init__(self, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.neighbours = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0], dtype=torch.float32, device=x.device)
        degree = degree.index_add(0, target, torch.ones_like(target, dtype=torch.float32)).clamp(min=1)
        for own, neighbours in zip(self.own, self.neighbours, strict=True):
            total = torch.zeros_like(x, dtype=torch.float32).index_add(0, target, x[source].float())
            x = F.relu(own(x) + neighbours((total / degree[:, None]).to(x.dtype)))
        return x


class PointNet(nn.Module):
    """PointNet's classifier without its transforms (Qi et al. 2017, https://arxiv.org/abs/1612.00593). `points` are
    N x 3 x points."""

    def __init__(self, classes: int = 40) -> None:
        super().__init__()
        widths = (3, 64, 64, 64, 128, 1024)
        self.points = nn.Sequential(*(
            layer
            for a, b in itertools.pairwise(widths)
            for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
        ))  # fmt: skip
        self.head = nn.Sequential(_perceptron(1024, 512, 256), nn.Linear(256, classes))

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.points(points).amax(-1))


class RadianceField(nn.Module):
    """NeRF's network without view directions (Mildenhall et al. 2020, https://arxiv.org/abs/2003.08934). Points x 3."""

    scales: Tensor

    def __init__(self, frequencies: int = 10, width: int = 256) -> None:
        super().__init__()
        entry = 3 + 6 * frequencies
        self.register_buffer("scales", 2.0 ** torch.arange(frequencies))
        self.first = _perceptron(entry, *[width] * 5)
        self.second = _perceptron(width + entry, *[width] * 3)
        self.last = nn.Linear(width, 4)

    def forward(self, points: Tensor) -> Tensor:
        angles = (points[:, None] * self.scales[:, None]).flatten(1)
        encoded = torch.cat([points, angles.sin(), angles.cos()], -1)
        return self.last(self.second(torch.cat([self.first(encoded), encoded], -1)))


class SuperResolution(nn.Module):
    """EDSR's baseline, twice the size (Lim et al. 2017, https://arxiv.org/abs/1707.02921)."""

    def __init__(self, blocks: int = 16, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.leave = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, image: Tensor) -> Tensor:
        first = x = self.enter(image)
        for block in self.blocks:
            x = x + block(x)
        return self.leave(x + first)


class Generator(nn.Module):
    """DCGAN's generator (Radford et al. 2015, https://arxiv.org/abs/1511.06434). N x 100 x 1 x 1 to N x 3 x 64 x 64."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        widths = (100, 8 * width, 4 * width, 2 * width, width)
        layers: list[nn.Module] = []
        for index, (a, b) in enumerate(itertools.pairwise(widths)):
            stride, padding = (1, 0) if index == 0 else (2, 1)
            layers += [nn.ConvTranspose2d(a, b, 4, stride, padding, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        return self.layers(noise)


class _Residual(nn.Module):
    def __init__(self, enter: int, leave: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, enter), nn.SiLU(), nn.Conv2d(enter, leave, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, leave))
        self.second = nn.Sequential(nn.GroupNorm(32, leave), nn.SiLU(), nn.Conv2d(leave, leave, 3, padding=1))
        self.skip = nn.Identity() if enter == leave else nn.Conv2d(enter, leave, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        moved = self.first(x) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(moved)


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.enter, self.leave = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.enter(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
        attended = F.scaled_dot_product_attention(query, key, value).squeeze(1)
        return x + self.leave(attended.transpose(1, 2).reshape(x.shape))


class DiffusionUNet(nn.Module):
    """DDPM's U-Net for 32 x 32 images (Ho et al. 2020, https://arxiv.org/abs/2006.11239): 128 channels times 1, 2, 2,
    2, two blocks a level, attention at 16 x 16. `step` has a number for each image."""

    def __init__(self, width: int = 128, factors: tuple[int, ...] = (1, 2, 2, 2), attends: int = 1) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, kept = width, [width]
        for level, factor in enumerate(factors):
            for _ in range(2):
                self.down.append(self._level(channels, factor * width, time, level == attends))
                channels = factor * width
                kept.append(channels)
            if level < len(factors) - 1:
                self.down.append(nn.Conv2d(channels, channels, 3, stride=2, padding=1))
                kept.append(channels)
        self.middle = self._level(channels, channels, time, True)
        self.last = _Residual(channels, channels, time)
        for level, factor in reversed(list(enumerate(factors))):
            for _ in range(3):
                self.up.append(self._level(channels + kept.pop(), factor * width, time, level == attends))
                channels = factor * width
            if level > 0:
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(channels, channels, 3, padding=1)))
        self.leave = nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))

    @staticmethod
    def _level(enter: int, leave: int, time: int, attends: bool) -> nn.ModuleList:
        return nn.ModuleList([_Residual(enter, leave, time), _Attention(leave) if attends else nn.Identity()])

    def forward(self, image: Tensor, step: Tensor) -> Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=image.device, dtype=image.dtype) * (-9.21 / half))
        angles = step[:, None] * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.enter(image)
        kept = [x]
        for part in self.down:
            x = self._through(part, x, time)
            kept.append(x)
        x = self.last(self._through(self.middle, x, time), time)
        for part in self.up:
            x = self._through(part, torch.cat([x, kept.pop()], 1) if isinstance(part, nn.ModuleList) else x, time)
        return self.leave(x)

    @staticmethod
    def _through(part: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        if not isinstance(part, nn.ModuleList):
            return part(x)
        residual, attention = part
        return attention(residual(x, time))
