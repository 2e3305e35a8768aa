"""Transformers built from Hugging Face configurations, with random weights: BERT, GPT-2, Llama and ViT.

Transformers is imported where it is used: it takes seconds, and most tools do not need it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.models.case import Built, image_batch, token_batch


def _logits_loss(outputs: Any, targets: Tensor) -> Tensor:
    # In float32, as in transformers' own losses.
    return F.cross_entropy(outputs.logits.flatten(0, -2).float(), targets.flatten())


def _hidden_loss(outputs: Any, targets: Tensor) -> Tensor:
    # The loss uses every output: parameters of an unused output have gradient zero when compiled, None in eager.
    return F.mse_loss(outputs.last_hidden_state, targets) + outputs.pooler_output.square().mean()


def _padding_mask(batch: int, length: int) -> Tensor:
    """A mask of ones, with zeros at the end of the last sequence: a mask without zeros would test nothing."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length - length // 4 :] = 0
    return mask


def _bert_config(
    layers: int, hidden: int, vocabulary: int, length: int, dropout: float, heads: int | None = None
) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads or max(1, hidden // 64),
        intermediate_size=4 * hidden,
        max_position_embeddings=max(512, length),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def bert(
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int | None = None,
    vocabulary: int = 30522,
    batch: int = 2,
    length: int = 128,
    dropout: float = 0.0,
    masked: bool = True,
) -> Built:
    """BERT with its masked-language-model head; the attention mask, if `masked`, pads the last sequence."""
    from transformers import BertForMaskedLM

    tokens = token_batch(batch, length, vocabulary)
    return Built(
        BertForMaskedLM(_bert_config(layers, hidden, vocabulary, length, dropout, heads)),
        {"input_ids": tokens} | ({"attention_mask": _padding_mask(batch, length)} if masked else {}),
        token_batch(batch, length, vocabulary),
        _logits_loss,
    )


def bert_encoder(
    *,
    layers: int = 12,
    hidden: int = 768,
    vocabulary: int = 30522,
    batch: int = 2,
    length: int = 128,
    dropout: float = 0.0,
) -> Built:
    """BERT without a head and without a mask: hidden states and the pooled first token."""
    from transformers import BertModel

    return Built(
        BertModel(_bert_config(layers, hidden, vocabulary, length, dropout)),
        {"input_ids": token_batch(batch, length, vocabulary)},
        torch.randn(batch, length, hidden),
        _hidden_loss,
    )


def gpt2(
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int | None = None,
    vocabulary: int = 50257,
    batch: int = 1,
    length: int = 128,
    dropout: float = 0.0,
) -> Built:
    """GPT-2 with its language-model head (tied to the embedding), without a key/value cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=hidden,
        n_layer=layers,
        n_head=heads or max(1, hidden // 64),
        n_positions=max(1024, length),
        bos_token_id=None,
        eos_token_id=None,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
    )
    tokens = token_batch(batch, length, vocabulary)
    return Built(GPT2LMHeadModel(config), {"input_ids": tokens}, torch.roll(tokens, -1, 1), _logits_loss)


def llama(
    *,
    layers: int = 8,
    hidden: int = 512,
    heads: int | None = None,
    inner: int | None = None,
    vocabulary: int = 32000,
    tied: bool = False,
    batch: int = 2,
    length: int = 128,
) -> Built:
    """A Llama: rotary positions, grouped-query attention (4 query heads a key head), SwiGLU, RMSNorm.

    `inner` is the width of the MLPs, `tied` says whether the head's weight is the embedding's.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = heads or max(4, hidden // 64)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner or hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        use_cache=False,
    )
    tokens = token_batch(batch, length, vocabulary)
    return Built(LlamaForCausalLM(config), {"input_ids": tokens}, torch.roll(tokens, -1, 1), _logits_loss)


def vit(
    *,
    layers: int = 12,
    hidden: int = 768,
    heads: int | None = None,
    patch: int = 16,
    classes: int = 1000,
    batch: int = 2,
    pixels: int = 224,
    dropout: float = 0.0,
) -> Built:
    """A vision transformer on patches of `patch` x `patch` pixels."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads or max(1, hidden // 64),
        intermediate_size=4 * hidden,
        image_size=pixels,
        patch_size=patch,
        num_labels=classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return Built(
        ViTForImageClassification(config),
        {"pixel_values": image_batch(batch, pixels)},
        torch.randint(classes, (batch,)),
        _logits_loss,
    )
