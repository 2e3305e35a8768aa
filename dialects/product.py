"""Marks matrix products that become kernels of ours, from the graph down to the kernel.

    graph    cuesta.mm … {route = "kernel", product = "128x256x64/8/3"}         [M, K] @ [K, N], its result in f32
    linalg   linalg.generic … {cuesta.product = [0, 2, 1], cuesta.product_tile = "128x256x64/8/3"}
             the loops that walk M, N and K; in a kernel, their classes; in a tile, its loops

A product whose left factor its kernel computes, by blocks, has `cuesta.factor` as well, from the generic down to the
kernel: the factor is the softmax of its operand, or the operand itself, computed from other products in the kernel.

"128x256x64/8/3 on 132" is a tile whose 132 programs take blocks of the result in turns, where others have one each.

On a CPU the tile is written "256x192x384 by 8x48", or "4x64x1024 by 4x2" for a product of few rows.

Operands keep their narrow type of memory; the generic's body widens them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.fields import Ints, Text

#: Of the generic: the loops, or in a kernel the classes, of M, N and K.
ROLES = Ints("cuesta.product")
#: Of the generic: the tile and the precision of the graph's op.
TILE, PRECISION = Text("cuesta.product_tile"), Text("cuesta.product_precision")
#: Of the generic: what its left factor is, one of the three below. The body says only what is summed.
FACTOR = Text("cuesta.factor")
#: The left operand, which the kernel computes from other products. A program has all columns of the result.
COMPUTED = "computed"
#: The softmax of the left operand's rows; a row of nothing but -inf has NaN, or with SAFE_SOFTMAX 0. A second result is
#: the logsumexp of each row.
SOFTMAX, SAFE_SOFTMAX = "softmax", "safe_softmax"

#: The smallest size along each of M, N and K that tensor cores multiply at once.
LEAST = 16

_TEXT = re.compile(r"(\d+)x(\d+)x(\d+)/(\d+)/(\d+)(?: on (\d+))?")


@dataclass(frozen=True)
class Tile:
    """The part of a product that a GPU program computes: m x n elements, k terms of each sum at a time, by `warps`
    warps, with the loads of `stages` iterations in flight at once. `programs`: how many programs share all parts of the
    result; None for one program a part."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    programs: int | None = None

    def __str__(self) -> str:
        own = f"{self.m}x{self.n}x{self.k}/{self.warps}/{self.stages}"
        return own if self.programs is None else f"{own} on {self.programs}"

    @staticmethod
    def parse(text: str) -> Tile:
        """Reads the text of a tile. Raises ValueError for any other text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is not a tile of a product: the form is MxNxK/warps/stages, such as 128x256x64/8/3, "
                "or that with ' on ' and a number of programs behind it"
            )
        return Tile(*(int(number) for number in found.groups() if number is not None))


_PANELS = re.compile(r"(\d+)x(\d+)x(\d+) by (\d+)x(\d+)")


@dataclass(frozen=True)
class Panels:
    """The part of a product that a CPU computes at once: m x n elements, k terms of each sum at a time, in panels of
    `columns` columns, with the sums of `rows` rows of a panel in registers."""

    m: int
    n: int
    k: int
    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} by {self.rows}x{self.columns}"

    @property
    def along_k(self) -> bool:
        """Whether vectors lie along K, not along a panel's columns, which then fill no vector: of few rows."""
        return self.columns < LEAST

    @staticmethod
    def parse(text: str) -> Panels:
        """Reads the text of panels. Raises ValueError for any other text."""
        found = _PANELS.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is not a product in panels: the form is MxNxK by ROWSxCOLUMNS, such as 256x192x384 by 8x48"
            )
        return Panels(*map(int, found.groups()))


def is_in_panels(tile: str | None) -> bool:
    """Whether `tile` is the text of panels, a CPU's tile."""
    return tile is not None and _PANELS.fullmatch(tile) is not None


def panels_of(generic: ir.Operation) -> Panels | None:
    """The panels of a generic that is a product for a CPU; None for another generic, and for a GPU's product."""
    tile = TILE.find(generic)
    return Panels.parse(tile) if tile is not None and is_in_panels(tile) else None


def tile_of(generic: ir.Operation) -> Tile | None:
    """The tile of a generic that is a product; None for another generic."""
    tile = TILE.find(generic)
    return None if tile is None else Tile.parse(tile)


def roles_of(generic: ir.Operation) -> tuple[int, int, int]:
    """The loops, or in a kernel the classes, that walk M, N and K of a generic that is a product."""
    m, n, k = ROLES.of(generic)
    return m, n, k
