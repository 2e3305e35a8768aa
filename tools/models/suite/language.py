"""Defines the suite's models on tokens and sound, from transformers' configurations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cuesta.tools.models.suite.case import SuiteCase
from cuesta.tools.models.transformer import bert, gpt2, llama

WORDS = 64
LENGTH = 12
_SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def tokens(batch: int) -> dict[str, Tensor]:
    """Token ids, `batch` x LENGTH."""
    return {"input_ids": torch.randint(WORDS, (batch, LENGTH))}


def padded_tokens(batch: int) -> dict[str, Tensor]:
    """Token ids, with an attention mask that excludes the second half of the last row."""
    mask = torch.ones(batch, LENGTH, dtype=torch.int64)
    mask[-1, LENGTH // 2 :] = 0
    return {**tokens(batch), "attention_mask": mask}


def _bert() -> nn.Module:
    return bert(layers=2, hidden=32, heads=4, vocabulary=WORDS, length=LENGTH).module


def _gpt2() -> nn.Module:
    return gpt2(layers=2, hidden=32, heads=4, vocabulary=WORDS, length=LENGTH).module


def _llama() -> nn.Module:
    return llama(layers=2, hidden=32, heads=8, inner=64, vocabulary=WORDS, length=LENGTH).module


def _mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=WORDS,
        **_SIZES,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        use_cache=False,
        experts_implementation="batched_mm",  # the default does not support float64, which the check needs
    )
    return MixtralForCausalLM(config)


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False
    )
    return T5ForConditionalGeneration(config)


def _t5_inputs(batch: int) -> dict[str, Tensor]:
    return {**padded_tokens(batch), "decoder_input_ids": torch.randint(WORDS, (batch, LENGTH // 2))}


def _whisper_encoder() -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=8,
        max_source_positions=20, dropout=0.0,
    )  # fmt: skip
    return WhisperEncoder(config)


def _clip() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    text = {**_SIZES, "vocab_size": WORDS, "max_position_embeddings": LENGTH, "eos_token_id": WORDS - 1}
    vision = {**_SIZES, "image_size": 32, "patch_size": 8}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


def _clip_inputs(batch: int) -> dict[str, Tensor]:
    return {**padded_tokens(batch), "pixel_values": torch.randn(batch, 3, 32, 32)}


LANGUAGE = (
    SuiteCase("BERT", _bert, padded_tokens),
    SuiteCase("GPT-2", _gpt2, tokens),
    SuiteCase("Llama", _llama, tokens),
    SuiteCase("Mixtral (mixture of experts)", _mixtral, tokens),
    SuiteCase("T5", _t5, _t5_inputs),
    SuiteCase("Whisper's encoder", _whisper_encoder, lambda batch: {"input_features": torch.randn(batch, 8, 40)}),
    SuiteCase("CLIP", _clip, _clip_inputs),
)
