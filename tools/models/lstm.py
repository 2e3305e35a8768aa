"""A word-level language model on nn.LSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models.case import Built, token_batch


class LSTMLanguageModel(nn.Module):
    """Token ids N x T to logits N x T x vocabulary."""

    def __init__(self, vocabulary: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(tokens)))
        return self.head(self.dropout(states))


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross entropy of logits N x T x vocabulary against token ids N x T."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def lstm(
    *,
    layers: int = 2,
    hidden: int = 512,
    vocabulary: int = 10000,
    batch: int = 8,
    length: int = 32,
    dropout: float = 0.0,
) -> Built:
    """The language model with a batch of random tokens; the targets are the inputs shifted by one."""
    tokens = token_batch(batch, length, vocabulary)
    module = LSTMLanguageModel(vocabulary, hidden, layers, dropout)
    return Built(module, {"tokens": tokens}, torch.roll(tokens, -1, 1), next_token_loss)
