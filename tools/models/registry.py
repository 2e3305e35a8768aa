"""Lists the models: MODELS are trained and evaluated in two sizes, SUITE is compared with eager at any batch size."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models.case import Built, ModelCase, SuiteCase, classifier, token_batch
from cuesta.tools.models.densenet import DenseNet
from cuesta.tools.models.mobilenet import MobileNetV3, Row
from cuesta.tools.models.others import Deciding, Recommender, SpectralMixer, UNetBlock
from cuesta.tools.models.resnet import ResNet
from cuesta.tools.models.transformer import (
    LSTMLanguageModel,
    Sizes,
    bert,
    bert_encoder,
    bert_module,
    gpt2_module,
    llama_module,
    logits_loss,
    next_token,
    next_token_loss,
    padding_mask,
    transformers_model,
    vit_module,
)


def _torchvision(network: str, classes: int) -> nn.Module:
    get_model = pkgutil.resolve_name("torchvision.models:get_model")
    module: nn.Module = get_model(network, weights=None, num_classes=classes)
    return module


def _loss_in_float32(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), targets)


def _vit(pixels: int = 224, **sizes: Any) -> Built:
    return classifier(partial(vit_module, pixels=pixels), "pixel_values", logits_loss)(pixels=pixels, **sizes)


_IMAGES: dict[str, Any] = {"classes": 10, "pixels": 64}
_TEXT: dict[str, Any] = {"layers": 2, "hidden": 128, "vocabulary": 512, "length": 32}

MODELS = (
    ModelCase(
        "resnet18",
        classifier(ResNet),
        small={"blocks": (1, 1, 1, 1), "width": 16, "batch": 4, **_IMAGES},
        full={"blocks": (2, 2, 2, 2), "deep": False},
    ),
    ModelCase(
        "resnet50",
        classifier(ResNet),
        small={"blocks": (1, 1, 2, 1), "width": 16, "batch": 4, **_IMAGES},
        full={"blocks": (3, 4, 6, 3), "deep": True},
    ),
    ModelCase(
        "densenet121",
        classifier(DenseNet),
        small={"blocks": (2, 2, 2, 2), "growth": 8, "batch": 4, **_IMAGES},
        full={"blocks": (6, 12, 24, 16)},
    ),
    ModelCase("bert", bert, small=_TEXT, full={}, has_dropout=True),
    ModelCase("bert_encoder", bert_encoder, small=_TEXT, full={}, has_dropout=True),
    ModelCase(
        "gpt2",
        next_token(gpt2_module),
        small=_TEXT | {"batch": 2},
        full={"vocabulary": 50257, "batch": 1},
        has_dropout=True,
    ),
    ModelCase("vit", _vit, small={"layers": 2, "hidden": 128, **_IMAGES}, full={}, has_dropout=True),
    ModelCase("llama", next_token(llama_module), small=_TEXT, full={"layers": 8, "hidden": 512, "vocabulary": 32000}),
    ModelCase(
        "lstm",
        next_token(LSTMLanguageModel, "tokens", next_token_loss),
        small={"hidden": 64, "vocabulary": 256, "batch": 3, "length": 5},
        full={"layers": 2, "hidden": 512, "vocabulary": 10000, "batch": 8, "length": 32},
        has_dropout=True,
    ),
)
#: Models of the benchmarks alone.
_BENCHMARKED = (
    ModelCase("mobilenet_v3", classifier(MobileNetV3), small={}, full={}),
    ModelCase("torchvision", classifier(_torchvision, "x", _loss_in_float32), small={}, full={}),
)


def find_model(name: str) -> ModelCase:
    """The case called `name`. Raises KeyError with the valid names."""
    by_name = {case.name: case for case in (*MODELS, *_BENCHMARKED)}
    if name not in by_name:
        raise KeyError(f"no model named {name!r}; the models are {', '.join(by_name)}")
    return by_name[name]


def published(name: str, **sizes: Any) -> Callable[[], Built]:
    """Builds the model called `name` at its published size, except for `sizes`."""
    return partial(find_model(name).make, "full", **sizes)


# -- the suite --------------------------------------------------------------------------------
_WORDS, _LENGTH, _PIXELS = 64, 12, 32
_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_SIZES = Sizes(layers=2, hidden=32, heads=4, vocabulary=_WORDS, length=_LENGTH)
#: A block of each kind that MobileNetV3-Small has, with fewer channels.
_ROWS = (
    Row(3, 8, 8, True, False, 2),
    Row(3, 24, 16, False, False, 2),
    Row(3, 40, 16, False, False, 1),
    Row(5, 48, 24, True, True, 2),
    Row(5, 64, 24, True, True, 1),
)


def _tokens(batch: int) -> dict[str, Tensor]:
    return {"input_ids": token_batch(batch, _LENGTH, _WORDS)}


def _padded(batch: int) -> dict[str, Tensor]:
    """Token ids, with an attention mask that excludes the second half of the last row."""
    return {**_tokens(batch), "attention_mask": padding_mask(batch, _LENGTH, _LENGTH // 2)}


def _images(batch: int, name: str = "pixel_values") -> dict[str, Tensor]:
    """RGB images, by default under the argument name of transformers' models."""
    return {name: torch.randn(batch, 3, _PIXELS, _PIXELS)}


def _of_transformers(case: str, model: str, inputs: Any, **settings: Any) -> SuiteCase:
    return SuiteCase(case, partial(transformers_model, model, **settings), inputs)


SUITE = (
    SuiteCase("BERT", partial(bert_module, _SIZES), _padded),
    SuiteCase("GPT-2", partial(gpt2_module, _SIZES), _tokens),
    SuiteCase("Llama", lambda: llama_module(Sizes(2, 32, 8, 64, _WORDS, length=_LENGTH)), _tokens),
    _of_transformers(
        "Mixtral (mixture of experts)", "MixtralForCausalLM", _tokens,
        vocab_size=_WORDS, **_TINY, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, use_cache=False,
        experts_implementation="batched_mm",  # the default does not support float64, which the check needs
    ),
    _of_transformers(
        "T5", "T5ForConditionalGeneration",
        lambda batch: {**_padded(batch), "decoder_input_ids": torch.randint(_WORDS, (batch, _LENGTH // 2))},
        vocab_size=_WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False,
    ),
    _of_transformers(
        "Whisper's encoder", "transformers.models.whisper.modeling_whisper:WhisperEncoder",
        lambda batch: {"input_features": torch.randn(batch, 8, 40)},
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=8,
        max_source_positions=20, dropout=0.0,
    ),
    _of_transformers(
        "CLIP", "CLIPModel", lambda batch: {**_padded(batch), **_images(batch)},
        text_config={
            **_TINY, "vocab_size": _WORDS, "max_position_embeddings": _LENGTH, "eos_token_id": _WORDS - 1
        },
        vision_config={**_TINY, "image_size": _PIXELS, "patch_size": 8}, projection_dim=16,
    ),
    SuiteCase(
        "ViT", lambda: vit_module(layers=2, hidden=32, heads=4, patch=8, classes=10, pixels=_PIXELS), _images
    ),
    _of_transformers(
        "ResNet", "ResNetForImageClassification", _images,
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], layer_type="bottleneck", num_labels=10,
    ),
    _of_transformers(
        "MobileNetV2", "MobileNetV2ForImageClassification", _images,
        image_size=_PIXELS, depth_multiplier=0.25, num_labels=10, classifier_dropout_prob=0.0,
    ),
    SuiteCase(
        "MobileNetV3", partial(MobileNetV3, _ROWS, classes=10, width=8, last=32), partial(_images, name="image")
    ),
    _of_transformers(
        "EfficientNet", "EfficientNetForImageClassification", _images,
        image_size=_PIXELS, width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320, num_labels=10,
        dropout_rate=0.0, drop_connect_rate=0.0,
    ),
    _of_transformers(
        "ConvNeXt", "ConvNextForImageClassification", _images,
        num_stages=3, hidden_sizes=[8, 16, 32], depths=[1, 1, 2], image_size=_PIXELS, num_labels=10, patch_size=2,
    ),
    _of_transformers(
        "Swin", "SwinForImageClassification", _images,
        image_size=_PIXELS, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10,
        drop_path_rate=0.0,
    ),
    SuiteCase("DenseNet", partial(DenseNet, (2, 2, 2), growth=8, classes=10), partial(_images, name="image")),
    SuiteCase(
        "a U-Net's blocks (diffusion)", UNetBlock,
        lambda batch: {"image": torch.randn(batch, 3, 16, 16), "step": torch.rand(batch)},
    ),
    SuiteCase(
        "LSTM", lambda: LSTMLanguageModel(Sizes(layers=2, hidden=16, vocabulary=50)),
        lambda batch: {"tokens": torch.randint(50, (batch, 6))},
    ),
    SuiteCase(
        "a recommender (embedding bags)", Recommender,
        lambda batch: {"numbers": torch.randn(batch, 4), "ids": torch.randint(50, (batch, 5))},
    ),
    SuiteCase("FFT", SpectralMixer, lambda batch: {"x": torch.randn(batch, 16, 8)}),
    SuiteCase(
        "control flow by data", Deciding, lambda batch: {"x": torch.randn(batch, 8)}, "each `if` asks for a number"
    ),
)  # fmt: skip
