"""Defines a decoder of text as Llama is built, with a static key/value cache, and counts the bytes that a step reads.

RMS norm, rotary positions (Su et al. 2021, https://arxiv.org/abs/2104.09864), grouped-query attention (Ainslie et al.
2023, https://arxiv.org/abs/2305.13245) and SwiGLU. The caches are buffers, so that their addresses never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models.case import Built, token_batch

_SLOWEST_TURN = 10_000.0
"""The ratio of the fastest rotation to the slowest."""


@dataclass(frozen=True)
class DecoderSizes:
    """The sizes of a decoder, by default about 0.15 billion parameters."""

    layers: int = 8
    hidden: int = 1024
    heads: int = 16
    key_heads: int = 4
    inner: int = 2816
    vocabulary: int = 32_000
    batch: int = 1
    length: int = 1024
    """Positions of the cache."""
    tied: bool = False
    """Whether the head's weight is the embedding's."""

    @property
    def width(self) -> int:
        """Elements of a head."""
        return self.hidden // self.heads


Rotation = tuple[Tensor, Tensor]
"""Cosines and sines, T x width/2."""


class Attention(nn.Module):
    """Attention of T new positions to all that the cache has up to them, B x T x hidden to the same."""

    keys: Tensor
    values: Tensor

    def __init__(self, s: DecoderSizes) -> None:
        super().__init__()
        self.width = s.width
        self.query = nn.Linear(s.hidden, s.hidden, bias=False)
        self.key, self.value = (nn.Linear(s.hidden, s.key_heads * s.width, bias=False) for _ in range(2))
        self.out = nn.Linear(s.hidden, s.hidden, bias=False)
        # Random, as after a text: what lies behind the last position must not count, and zeros would hide that it does.
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(s.batch, s.key_heads, s.length, s.width), persistent=False)

    def forward(self, x: Tensor, positions: Tensor, rotation: Rotation, mask: Tensor) -> Tensor:
        query, key, value = (self._heads(layer(x)) for layer in (self.query, self.key, self.value))
        self.keys.index_copy_(2, positions, rotated(key, rotation))
        self.values.index_copy_(2, positions, value)
        attended = F.scaled_dot_product_attention(
            rotated(query, rotation), self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        return self.out(attended.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)


class GatedMLP(nn.Module):
    """SwiGLU (Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

    def __init__(self, s: DecoderSizes) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(s.hidden, s.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(s.inner, s.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """A layer of the decoder, B x T x hidden to the same."""

    def __init__(self, s: DecoderSizes) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = (nn.RMSNorm(s.hidden, eps=1e-5) for _ in range(2))
        self.attention, self.mlp = Attention(s), GatedMLP(s)

    def forward(self, x: Tensor, positions: Tensor, rotation: Rotation, mask: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x), positions, rotation, mask)
        return x + self.mlp(self.before_mlp(x))


class Decoder(nn.Module):
    """Token ids B x T at positions [T] to the logits behind the last of them, B x vocabulary. Writes the caches."""

    def __init__(self, s: DecoderSizes) -> None:
        super().__init__()
        self.sizes = s
        self.embedding = nn.Embedding(s.vocabulary, s.hidden)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.hidden, eps=1e-5)
        self.head = nn.Linear(s.hidden, s.vocabulary, bias=False)
        if s.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(tokens)
        rotation = rotation_at(positions, self.sizes.width, x.dtype)
        mask = torch.arange(self.sizes.length, device=positions.device) <= positions[:, None]
        for layer in self.layers:
            x = layer(x, positions, rotation, mask)
        return self.head(self.norm(x[:, -1]))

    def caches(self) -> Iterator[Tensor]:
        """The buffers of keys and values, B x key heads x length x width each."""
        for layer in self.layers:
            assert isinstance(layer, Layer)
            yield from (layer.attention.keys, layer.attention.values)

    def bytes_of_step(self, position: int) -> int:
        """Bytes that the step at a position reads at least: each weight once, as it is stored, of the embedding the
        rows of its tokens (all of them if it is the head's weight), and of the caches what lies before the position."""
        table = self.embedding.weight
        is_whole = getattr(self.head, "weight", None) is table
        caches = {id(cache): cache.nbytes for cache in self.caches()}
        stored = {id(x): x.nbytes for x in (*self.parameters(), *self.buffers())}
        weights = sum(size for key, size in stored.items() if key not in caches and (is_whole or key != id(table)))
        rows = 0 if is_whole else self.sizes.batch * self.sizes.hidden * table.element_size()
        return weights + rows + sum(caches.values()) * position // self.sizes.length


def rotation_at(positions: Tensor, width: int, dtype: torch.dtype) -> Rotation:
    """The rotations at positions [T] of heads of `width` elements, computed in float32."""
    turns = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    angles = positions[:, None].float() * _SLOWEST_TURN**-turns
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotated(x: Tensor, rotation: Rotation) -> Tensor:
    """Heads B x heads x T x width, each pair of elements half a width apart turned by its angle."""
    (first, second), (cos, sin) = x.chunk(2, -1), rotation
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def decoder(
    sizes: DecoderSizes, *, prompt: int = 1, at: int = 0, change: Callable[[Decoder], Decoder] | None = None
) -> Built:
    """A decoder with random tokens at `prompt` positions, the first of which is `at`. `change` narrows its weights."""
    module = Decoder(sizes)
    if change is not None:
        module = change(module)
    inputs = {"tokens": token_batch(sizes.batch, prompt, sizes.vocabulary), "positions": torch.arange(at, at + prompt)}
    return Built(module, inputs, token_batch(sizes.batch, 1, sizes.vocabulary)[:, 0], F.cross_entropy)
