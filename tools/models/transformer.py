"""Builds language models and Transformers from sizes, with random weights: BERT, GPT-2, Llama, ViT and an LSTM.

The library transformers is imported where it is used: it takes seconds, and most tools do not need it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models.case import Built, token_batch


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model and of its batch of sequences; a model ignores those that it has not."""

    layers: int = 12
    hidden: int = 768
    heads: int | None = None
    """By default one for 64 of `hidden`."""
    inner: int | None = None
    """Llama's: the width of the MLPs."""
    vocabulary: int = 30522
    batch: int = 2
    length: int = 128
    dropout: float = 0.0
    tied: bool = False
    """Llama's: whether the head's weight is the embedding's."""


def transformers_model(name: str, **settings: Any) -> nn.Module:
    """transformers' model of that name, from settings of its configuration."""
    model = pkgutil.resolve_name(name if ":" in name else f"transformers:{name}")
    module: nn.Module = model(model.config_class(**settings))
    return module


def logits_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Mean cross entropy of the outputs' logits, over all positions if there are several."""
    # In float32, as in transformers' own losses.
    return F.cross_entropy(outputs.logits.flatten(0, -2).float(), targets.flatten())


def _hidden_loss(outputs: Any, targets: Tensor) -> Tensor:
    # The loss uses every output: parameters of an unused output have gradient zero when compiled, None in eager.
    return F.mse_loss(outputs.last_hidden_state, targets) + outputs.pooler_output.square().mean()


def padding_mask(batch: int, length: int, padded: int) -> Tensor:
    """A mask of ones, with `padded` zeros at the end of the last sequence: a mask without zeros would test nothing."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length - padded :] = 0
    return mask


def bert_module(s: Sizes, name: str = "BertForMaskedLM") -> nn.Module:
    """BERT with its masked-language-model head, or as another class of transformers."""
    return transformers_model(
        name,
        vocab_size=s.vocabulary,
        hidden_size=s.hidden,
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads or max(1, s.hidden // 64),
        intermediate_size=4 * s.hidden,
        max_position_embeddings=max(512, s.length),
        hidden_dropout_prob=s.dropout,
        attention_probs_dropout_prob=s.dropout,
    )


def bert(*, masked: bool = True, **sizes: Any) -> Built:
    """BERT with its masked-language-model head; the attention mask, if `masked`, pads the last sequence."""
    s = Sizes(**sizes)
    tokens = token_batch(s.batch, s.length, s.vocabulary)
    module = bert_module(s)
    inputs = {"input_ids": tokens}
    if masked:
        inputs["attention_mask"] = padding_mask(s.batch, s.length, s.length // 4)
    return Built(module, inputs, token_batch(s.batch, s.length, s.vocabulary), logits_loss)


def bert_encoder(**sizes: Any) -> Built:
    """BERT without a head and without a mask: hidden states and the pooled first token."""
    s = Sizes(**sizes)
    module = bert_module(s, "BertModel")
    inputs = {"input_ids": token_batch(s.batch, s.length, s.vocabulary)}
    return Built(module, inputs, torch.randn(s.batch, s.length, s.hidden), _hidden_loss)


def next_token(
    make: Callable[[Sizes], nn.Module], name: str = "input_ids", loss: Callable[[Any, Tensor], Tensor] = logits_loss
) -> Callable[..., Built]:
    """The `build` of a language model with a batch of random tokens, passed as `name`; the targets are the inputs
    shifted by one."""

    def build(**sizes: Any) -> Built:
        s = Sizes(**sizes)
        tokens = token_batch(s.batch, s.length, s.vocabulary)
        return Built(make(s), {name: tokens}, torch.roll(tokens, -1, 1), loss)

    return build


def gpt2_module(s: Sizes) -> nn.Module:
    """GPT-2 with its language-model head (tied to the embedding), without a key/value cache."""
    return transformers_model(
        "GPT2LMHeadModel",
        vocab_size=s.vocabulary,
        n_embd=s.hidden,
        n_layer=s.layers,
        n_head=s.heads or max(1, s.hidden // 64),
        n_positions=max(1024, s.length),
        bos_token_id=None,
        eos_token_id=None,
        resid_pdrop=s.dropout,
        embd_pdrop=s.dropout,
        attn_pdrop=s.dropout,
        use_cache=False,
    )


def llama_module(s: Sizes) -> nn.Module:
    """A Llama: rotary positions, grouped-query attention (4 query heads a key head), SwiGLU, RMSNorm."""
    heads = s.heads or max(4, s.hidden // 64)
    return transformers_model(
        "LlamaForCausalLM",
        vocab_size=s.vocabulary,
        hidden_size=s.hidden,
        intermediate_size=s.inner or s.hidden * 11 // 4,
        num_hidden_layers=s.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        max_position_embeddings=2048,
        tie_word_embeddings=s.tied,
        use_cache=False,
    )


def vit_module(*, classes: int, patch: int = 16, pixels: int = 224, **sizes: Any) -> nn.Module:
    """A vision transformer on patches of `patch` x `patch` pixels."""
    s = Sizes(**sizes)
    return transformers_model(
        "ViTForImageClassification",
        hidden_size=s.hidden,
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads or max(1, s.hidden // 64),
        intermediate_size=4 * s.hidden,
        image_size=pixels,
        patch_size=patch,
        num_labels=classes,
        hidden_dropout_prob=s.dropout,
        attention_probs_dropout_prob=s.dropout,
    )


class LSTMLanguageModel(nn.Module):
    """A word-level language model on nn.LSTM: token ids N x T to logits N x T x vocabulary."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(s.vocabulary, s.hidden)
        dropout = s.dropout if s.layers > 1 else 0.0
        self.lstm = nn.LSTM(s.hidden, s.hidden, s.layers, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(s.dropout)
        self.head = nn.Linear(s.hidden, s.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(tokens)))
        return self.head(self.dropout(states))


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross entropy of logits N x T x vocabulary against token ids N x T."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
