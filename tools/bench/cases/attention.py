"""Defines the benchmark's cases of attention: flex_attention with masks and scores of all kinds, and torch's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from cuesta.tools.bench.cases.case import Case, Function
from cuesta.tools.bench.cases.functions import case
from cuesta.tools.bench.cases.workload import Workload

_WINDOW = 256
_CAP = 20.0
_DOCUMENTS = (0.1, 0.25, 0.05, 0.4, 0.2)
"""Parts of the sequence that are a text each."""

_Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(batch, head, query's position, key's position) → whether the query sees the key."""


@dataclass(frozen=True)
class Shape:
    """The shape and dtype of query, key and value."""

    batch: int
    heads: int
    length: int
    width: int
    dtype: torch.dtype

    def tensor(self) -> Tensor:
        return torch.randn(self.batch, self.heads, self.length, self.width).to(self.dtype)

    def __str__(self) -> str:
        return f"{self.batch}x{self.heads}x{self.length}x{self.width}"


@dataclass(frozen=True)
class Flex:
    """What flex_attention does beside attention. Made on torch's default device."""

    mask: Callable[[Shape], _Mask] | None = None
    score: Callable[..., Tensor] | None = None
    """(score, head, query's position, key's position, table) → score."""
    table: Callable[[Shape], Tensor] | None = None
    """What the score reads."""
    learns: bool = False
    """Whether the table has a gradient in training."""


def _causal(_: Shape) -> _Mask:
    return lambda batch, head, query, key: query >= key


def _window(_: Shape) -> _Mask:
    return lambda batch, head, query, key: (query >= key) & (query - key < _WINDOW)


def _documents(shape: Shape) -> _Mask:
    ends = (torch.tensor(_DOCUMENTS).cumsum(0) * shape.length).round()
    document = torch.bucketize(torch.arange(shape.length), ends, right=True)
    return lambda batch, head, query, key: (query >= key) & (document[query] == document[key])


def _slopes(shape: Shape) -> Tensor:
    """ALiBi's slope of each head (Press et al. 2022, https://arxiv.org/abs/2108.12409)."""
    return (2.0 ** (-8 / shape.heads * torch.arange(1, shape.heads + 1))).to(shape.dtype)


def _alibi(score: Tensor, head: Tensor, query: Tensor, key: Tensor, slopes: Tensor) -> Tensor:
    return score + slopes[head] * (key - query)


def _biases(shape: Shape) -> Tensor:
    """A bias for each head and distance (Shaw et al. 2018, https://arxiv.org/abs/1803.02155, as T5 has it)."""
    return torch.randn(shape.heads, 2 * shape.length - 1).to(shape.dtype)


def _capped(score: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return _CAP * torch.tanh(score / _CAP)


def _biased(score: Tensor, head: Tensor, query: Tensor, key: Tensor, table: Tensor) -> Tensor:
    return score + table[head, query - key + table.shape[1] // 2]


FLEX = {
    "none": Flex(),
    "causal": Flex(_causal),
    "alibi": Flex(_causal, _alibi, _slopes),
    "window": Flex(_window),
    "documents": Flex(_documents),
    "soft_cap": Flex(score=_capped),
    "relative": Flex(None, _biased, _biases, learns=True),
}


def flex(name: str, shape: Shape, *, trains: bool = False) -> Case:
    """The case of an entry of FLEX: forward, or forward and backward of a loss."""
    entry = FLEX[name]

    def build() -> Function:
        attend = _attended(entry, shape)
        inputs = [shape.tensor() for _ in range(3)]
        tables = [] if entry.table is None else [entry.table(shape)]
        if not trains:
            return Function(Workload(attend, (*inputs, *tables)))

        def loss(gradient: Tensor, *arguments: Tensor) -> Tensor:
            return (attend(*arguments) * gradient).sum()

        parameters = (*inputs, *(tables if entry.learns else ()))
        for parameter in parameters:
            parameter.requires_grad_()
        return Function(Workload(loss, (shape.tensor(), *inputs, *tables), parameters))

    return Case(f"flex_{name}_{'train_' if trains else ''}{shape}", build)


def _attended(entry: Flex, shape: Shape) -> Callable[..., Tensor]:
    """Query, key, value and the entry's table, if it has one, to the attention. Its mask's blocks are made here, once,
    as a model makes them for all of its layers."""
    score_of, device = entry.score, torch.get_default_device()
    blocks = None
    if entry.mask is not None:
        blocks = create_block_mask(entry.mask(shape), None, None, shape.length, shape.length, device=str(device))

    def attend(query: Tensor, key: Tensor, value: Tensor, *tables: Tensor) -> Any:
        if score_of is None:
            return flex_attention(query, key, value, block_mask=blocks)

        def score(value: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score_of(value, head, query, key, *tables)

        return flex_attention(query, key, value, score_mod=score, block_mask=blocks)

    return attend


def causal(shape: Shape) -> Case:
    """The case of torch's causal attention."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    return case(f"sdpa_causal_{shape}", attend, lambda: tuple(shape.tensor() for _ in range(3)))


def masked(shape: Shape) -> Case:
    """The case of torch's attention with a mask for each sequence: the last quarter of every second one is padding."""

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    def make() -> tuple[Tensor, ...]:
        mask = torch.ones(shape.batch, 1, shape.length, shape.length, dtype=torch.bool).tril()
        mask[1::2, :, :, shape.length * 3 // 4 :] = False
        return (*(shape.tensor() for _ in range(3)), mask)

    return case(f"sdpa_masked_{shape}", attend, make)
