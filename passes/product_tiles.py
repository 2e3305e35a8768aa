"""Tiles of matrix products on tensor cores: which there are, and which a rule of thumb takes.

The rule reckons with three limits of a tile's time on a multiprocessor: what tensor cores multiply, what the cache
gives, and what memory gives when all are at it. Programs run in waves of one for each multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta.dialects.product import LEAST, Tile

#: Of an H100: multiprocessors; for each of them products a second (of what tensor cores reach of their peak), bytes a
#: second from the cache and, of all memory, from memory.
_MULTIPROCESSORS = 132
_PRODUCTS = 2.5e12
_FROM_CACHE = 5.0e10
_FROM_MEMORY = 2.3e10
#: Seconds that a program takes beside its loop: it starts, fills its pipeline, and stores.
_BESIDE = 2.0e-6
#: Seconds that another launch costs, of the kernel that adds up the parts of a split sum.
_LAUNCH = 2.5e-6
#: What a part of a split sum has of K at least, and the most parts.
_LEAST_PART = 256
_MOST_PARTS = 32

#: Of two-byte elements. A warp group multiplies 64 rows at once (wgmma), so that fewer rows than 64 take the older
#: instruction, which is as good where memory is the limit: there loads on their way count, and tiles are long in K.
_TILES = (
    Tile(128, 256, 64, 8, 4),
    Tile(256, 128, 64, 8, 4),
    Tile(128, 128, 64, 8, 4),
    Tile(128, 128, 64, 4, 4),
    Tile(128, 64, 64, 4, 4),
    Tile(64, 256, 64, 4, 4),
    Tile(64, 128, 64, 4, 4),
    Tile(64, 64, 128, 4, 4),
    Tile(64, 32, 128, 4, 4),
    Tile(32, 128, 128, 4, 4),
    Tile(32, 64, 128, 4, 5),
    Tile(32, 32, 256, 4, 4),
    Tile(16, 128, 128, 4, 4),
    Tile(16, 64, 128, 4, 5),
    Tile(16, 32, 256, 4, 5),
    Tile(16, 16, 512, 4, 4),
)


@dataclass(frozen=True)
class Plan:
    """How a product becomes kernels: its tile, and the parts that K is cut into, each with a program of its own."""

    tile: Tile
    parts: int = 1

    def __str__(self) -> str:
        return f"{self.tile}" if self.parts == 1 else f"{self.tile} in {self.parts} parts"

    @staticmethod
    def parse(text: str) -> Plan:
        """The plan whose text it is. Raises ValueError for any other text."""
        tile, _, parts = text.partition(" in ")
        return Plan(Tile.parse(tile), int(parts.removesuffix(" parts")) if parts else 1)


def plans(batch: int, m: int, n: int, k: int, width: int) -> list[Plan]:
    """The plans for a product of elements of `width` bytes, by the time that the rule reckons, the shortest first."""
    sizes = (batch, m, n, k)
    fitted = dict.fromkeys(_fitted(tile, sizes, width) for tile in _TILES)
    found = [Plan(tile, parts) for tile in fitted for parts in _parts(tile, sizes)]
    return sorted(found, key=lambda plan: seconds(plan, sizes, width))


def _fitted(tile: Tile, sizes: tuple[int, int, int, int], width: int) -> Tile:
    """The tile for elements of that width, no larger than the product wants."""
    _, m, n, k = sizes
    m, n = min(tile.m, _power(m)), min(tile.n, _power(n))
    k = min(max(tile.k * 2 // width, LEAST), _power(k))
    return Tile(m, n, k, tile.warps if m * n >= 128 * 128 else min(tile.warps, 4), tile.stages)


def _power(n: int) -> int:
    return max(1 << max(n - 1, 0).bit_length(), LEAST)


def _parts(tile: Tile, sizes: tuple[int, int, int, int]) -> Sequence[int]:
    """The numbers of parts that may pay: powers of two that divide K evenly, while programs are few."""
    batch, m, n, k = sizes
    programs = batch * math.ceil(m / tile.m) * math.ceil(n / tile.n)
    found = [1]
    while (
        batch == 1
        and programs * found[-1] < 2 * _MULTIPROCESSORS
        and found[-1] < _MOST_PARTS
        and k % (2 * found[-1] * tile.k) == 0
        and k // (2 * found[-1]) >= _LEAST_PART
    ):
        found.append(2 * found[-1])
    return found


def seconds(plan: Plan, sizes: tuple[int, int, int, int], width: int) -> float:
    """About how long a product takes, on an H100."""
    tile = plan.tile
    batch, m, n, k = sizes
    programs = batch * math.ceil(m / tile.m) * math.ceil(n / tile.n) * plan.parts
    waves = math.ceil(programs / _MULTIPROCESSORS)
    # What is narrower than a warp group's 64 rows is multiplied all the same.
    products = max(tile.m, 64) * max(tile.n, 32) / _PRODUCTS
    loads = (tile.m + tile.n) * width / _FROM_CACHE
    memory = batch * (m * k + k * n) * width / (_FROM_MEMORY * _MULTIPROCESSORS)
    total = max(waves * (k / plan.parts) * max(products, loads), memory) + _BESIDE
    if plan.parts > 1:
        total += _LAUNCH + 2 * 4 * plan.parts * m * n / (_FROM_MEMORY * _MULTIPROCESSORS)
    return total
