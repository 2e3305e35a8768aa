"""Defines `kernel.attention`: attention as a CPU kernel of ours, from linalg to its loops. No linalg op expresses it.

    %o, %lse = "kernel.attention"(%q, %k, %v) {scale = 0.125, causal = 1, tile = "64x128 by 4", result_strides = …}
    "kernel.attention"(%q, %k, %v, %o, %lse) {scale = 0.125, causal = 1, tile = "64x128 by 4", masked = 0}

The first form is in the host function until kernels are formed. The second form is the only op of a kernel and has the
results as operands. Operands are those of the cuesta dialect's ops, in f32; a mask is f32 to add, or i8 that marks the
visible keys. Attention of few queries has the tile "128 keys", and may be of bf16 or f16.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import VERIFIERS
from cuesta.dialects.fields import OPTIONAL, Flag, Float, NumberRows, Text
from cuesta.dialects.open_op import OpenOp


class KernelAttention(OpenOp):
    """What both ops carry."""

    scale: Float
    causal: Flag
    masked: Flag
    #: The text of an `AttentionTile` or of `FewQueries`. At the graph's op it makes the op a kernel.
    tile: Text
    result_strides: Annotated[NumberRows, OPTIONAL]


class Forward(KernelAttention, name="kernel.attention"):
    """Attention."""


class Backward(KernelAttention, name="kernel.attention_backward"):
    """The gradients of attention."""


_TEXT = re.compile(r"(\d+)x(\d+) by (\d+)")


#: The scores of this many keys, or a multiple, are in registers at once.
ROWS = 4
#: The lanes of a vector; a tile's queries are a multiple of them.
LANES = 16


@dataclass(frozen=True)
class AttentionTile:
    """How a kernel tiles attention: `queries` at once, the scores of `keys` at a time, those of `rows` keys in
    registers. `queries` is a multiple of 16, `rows` of 4, `keys` of `rows`."""

    queries: int
    keys: int
    rows: int

    def __str__(self) -> str:
        return f"{self.queries}x{self.keys} by {self.rows}"

    @staticmethod
    def parse(text: str) -> AttentionTile:
        """Reads the text of a tile. Raises ValueError for any other text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is not a tile of attention: the form is QUERIESxKEYS by ROWS, such as 64x128 by 4"
            )
        return AttentionTile(*map(int, found.groups()))


_FEW_TEXT = re.compile(r"(\d+) keys")


@dataclass(frozen=True)
class FewQueries:
    """How a kernel walks attention of few queries: all queries that share a head of k and v at once, and `keys` keys at
    a time, a multiple of 16."""

    keys: int

    def __str__(self) -> str:
        return f"{self.keys} keys"

    @staticmethod
    def matches(text: str) -> bool:
        """Whether a text is the tile of few queries."""
        return _FEW_TEXT.fullmatch(text) is not None

    @staticmethod
    def parse(text: str) -> FewQueries:
        """Reads the text of a tile that matches."""
        found = _FEW_TEXT.fullmatch(text)
        assert found is not None
        return FewQueries(int(found.group(1)))


def is_attention(op: ir.Operation) -> bool:
    """Whether an op is attention, or its gradients, as a kernel."""
    return Forward.matches(op) or Backward.matches(op)


def _problem(op: ir.Operation) -> str | None:
    text = KernelAttention.tile.of(op)
    if Forward.matches(op) and FewQueries.matches(text):
        keys = FewQueries.parse(text).keys
        return f'tile "{text}": keys must be a multiple of {LANES}' if keys == 0 or keys % LANES else None
    try:
        tile = AttentionTile.parse(text)
    except ValueError as problem:
        return str(problem)
    if 0 in (tile.queries, tile.keys, tile.rows) or tile.queries % LANES or tile.rows % ROWS or tile.keys % tile.rows:
        return f'tile "{tile}": queries must be a multiple of {LANES}, rows of {ROWS}, and keys of rows'
    return None


VERIFIERS[Forward.OPERATION_NAME] = _problem
VERIFIERS[Backward.OPERATION_NAME] = _problem
