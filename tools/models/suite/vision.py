"""Defines the suite's models on images, from transformers' configurations and cuesta's own models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cuesta.tools.models.densenet import DenseNet
from cuesta.tools.models.mobilenet import MobileNetV3, Row
from cuesta.tools.models.suite.case import SuiteCase
from cuesta.tools.models.transformer import vit

PIXELS = 32


def images(batch: int) -> dict[str, Tensor]:
    """RGB images, under the argument name of transformers' models."""
    return {"pixel_values": torch.randn(batch, 3, PIXELS, PIXELS)}


def _vit() -> nn.Module:
    return vit(layers=2, hidden=32, heads=4, patch=8, classes=10, pixels=PIXELS).module


def _resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], layer_type="bottleneck", num_labels=10
    )
    return ResNetForImageClassification(config)


def _mobilenet() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=PIXELS, depth_multiplier=0.25, num_labels=10, classifier_dropout_prob=0.0)
    return MobileNetV2ForImageClassification(config)


def _efficientnet() -> nn.Module:
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        image_size=PIXELS, width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320, num_labels=10,
        dropout_rate=0.0, drop_connect_rate=0.0,
    )  # fmt: skip
    return EfficientNetForImageClassification(config)


def _convnext() -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(
        num_stages=3, hidden_sizes=[8, 16, 32], depths=[1, 1, 2], image_size=PIXELS, num_labels=10, patch_size=2
    )
    return ConvNextForImageClassification(config)


def _swin() -> nn.Module:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=PIXELS, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10,
        drop_path_rate=0.0,
    )  # fmt: skip
    return SwinForImageClassification(config)


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


#: A block of each kind that MobileNetV3-Small has, with fewer channels.
_ROWS = (
    Row(3, 8, 8, True, False, 2),
    Row(3, 24, 16, False, False, 2),
    Row(3, 40, 16, False, False, 1),
    Row(5, 48, 24, True, True, 2),
    Row(5, 64, 24, True, True, 1),
)


def _mobilenet_v3() -> nn.Module:
    return MobileNetV3(_ROWS, classes=10, width=8, last=32)


def _densenet() -> nn.Module:
    return DenseNet((2, 2, 2), growth=8, classes=10)


VISION = (
    SuiteCase("ViT", _vit, images),
    SuiteCase("ResNet", _resnet, images),
    SuiteCase("MobileNetV2", _mobilenet, images),
    SuiteCase("MobileNetV3", _mobilenet_v3, lambda batch: {"image": torch.randn(batch, 3, PIXELS, PIXELS)}),
    SuiteCase("EfficientNet", _efficientnet, images),
    SuiteCase("ConvNeXt", _convnext, images),
    SuiteCase("Swin", _swin, images),
    SuiteCase("DenseNet", _densenet, lambda batch: {"image": torch.randn(batch, 3, PIXELS, PIXELS)}),
    SuiteCase(
        "a U-Net's blocks (diffusion)",
        UNetBlock,
        lambda batch: {"image": torch.randn(batch, 3, 16, 16), "step": torch.rand(batch)},
    ),
)
