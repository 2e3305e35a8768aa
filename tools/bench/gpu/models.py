"""Builds published models of transformers and torchvision at the sizes of the GPU cases, with random weights.

Models are in float32 on torch's default device; nothing is downloaded. The libraries are imported where they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models import Built
from cuesta.tools.models.case import image_batch, token_batch


def _token_loss(outputs: Any, targets: Tensor) -> Tensor:
    # In float32, as in transformers' own losses.
    return F.cross_entropy(outputs.logits.flatten(0, -2).float(), targets.flatten())


def _image_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), targets)


def bert_base(batch: int, length: int, dropout: float = 0.0) -> Built:
    """BERT with its masked-language-model head, on `batch` x `length` token ids, no padding."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return _language_model(BertForMaskedLM(config), config.vocab_size, batch, length)


def gpt2_small(batch: int, length: int, dropout: float = 0.0) -> Built:
    """GPT-2 with its language-model head and without a key/value cache, on `batch` x `length` token ids."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False)
    return _language_model(GPT2LMHeadModel(config), config.vocab_size, batch, length)


def llama_1b(batch: int, length: int) -> Built:
    """A Llama of 1.2 billion parameters: 16 layers, 32 heads on 8 key heads, on `batch` x `length` token ids."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        vocab_size=128256,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return _language_model(LlamaForCausalLM(config), config.vocab_size, batch, length)


def vit_large(batch: int) -> Built:
    """ViT-L/16 with its classifier, on `batch` images of 224 x 224."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        num_labels=1000,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Built(
        ViTForImageClassification(config),
        {"pixel_values": image_batch(batch, 224)},
        torch.randint(1000, (batch,)),
        _token_loss,
    )


def torchvision_model(name: str, batch: int, pixels: int) -> Built:
    """torchvision's classifier of that name, on `batch` images of `pixels` x `pixels`."""
    module: nn.Module = importlib.import_module("torchvision.models").get_model(name, weights=None)
    return Built(module, {"x": image_batch(batch, pixels)}, torch.randint(1000, (batch,)), _image_loss)


def _language_model(module: nn.Module, vocabulary: int, batch: int, length: int) -> Built:
    tokens = token_batch(batch, length, vocabulary)
    return Built(module, {"input_ids": tokens}, torch.roll(tokens, -1, 1), _token_loss)
