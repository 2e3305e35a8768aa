"""Builds a random graph of the cuesta dialect: draws the shapes, types and values that the steps use."""

from __future__ import annotations

import math
import random
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import spelling_of, static_shape

Value: TypeAlias = ir.Value
Shape: TypeAlias = tuple[int, ...]

#: Sizes that make loops merge, leave a remainder after vectors, or get different tiles. A dim of size 1 gets no loop.
SIZES = (1, 1, 2, 3, 4, 5, 8, 16, 33, 70)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
SPELLINGS = ("f32",) * 8 + ("f64", "bf16", "bf16", "f16", "i64", "i64", "i32", "i8", "ui8", "i1")
#: Most elements of a value, so that a graph runs in milliseconds.
LARGEST = 60_000


class GraphMaker:
    """Builds one graph at the insertion point. `values` holds the graph's arguments and the values computed so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.build = GraphBuilder()
        self.values: list[Value] = []

    # -- choices ------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def shape(self) -> Shape:
        sizes = tuple(self.random.choice(SIZES) for _ in range(self.random.choice(RANKS)))
        return sizes if math.prod(sizes) <= LARGEST else sizes[:2]

    def strides(self, sizes: Shape) -> list[int]:
        """Strides of a random memory order, mostly row-major; at times with gaps, or those of an expanded tensor."""
        if sizes and self.chance(0.06):
            kept = self.random.randrange(len(sizes))
            return [0] * (kept + 1) + [math.prod(sizes[d + 1 :]) for d in range(kept + 1, len(sizes))]
        order = list(range(len(sizes)))
        if self.chance(0.4):
            self.random.shuffle(order)
        gaps = self.chance(0.15)
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            strides[d] = step
            step *= sizes[d] + (self.random.choice((0, 1, 3)) if gaps else 0)
        return strides

    def dense_strides(self, sizes: Shape) -> list[int]:
        order = self.random.sample(range(len(sizes)), len(sizes)) if self.chance(0.25) else range(len(sizes))
        strides, step = [0] * len(sizes), 1
        for d in reversed(list(order)):
            strides[d] = step
            step *= sizes[d]
        return strides

    def recent(self) -> Value:
        """One of the last six values."""
        return self.random.choice(self.values[-6:])

    def other(self, x: Value, broadcasts: bool = True) -> Value:
        """A value of x's element type that broadcasts with x, or has x's shape if not `broadcasts`; or a constant."""
        fitting = [v for v in self.values if _fits(static_shape(x), static_shape(v), broadcasts)]
        if not fitting or self.chance(0.1):
            number = self.random.choice((0, 1, 2, -1, 0.5))
            return self.build.constant(number, spelling_of(x), () if broadcasts else static_shape(x))
        return self.convert(self.random.choice(fitting), spelling_of(x))

    # -- values for steps ---------------------------------------------------------------------
    def convert(self, x: Value, spelling: str) -> Value:
        """x converted to another type. Clamps floats first where torch leaves conversion to integers undefined: large
        numbers and NaN."""
        if types.is_float(spelling_of(x)) and not types.is_float(spelling) and spelling != "i1":
            x = self.build.where(self.build.pointwise("isnan", x), self.build.constant(0, spelling_of(x)), x)
            x = self.clamp(x, 0 if spelling == "ui8" else -100, 100)
        return self.build.convert(x, spelling)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        return self.build.with_number("minimum", self.build.with_number("maximum", x, low), high)

    def dims(self, x: Value) -> list[int]:
        rank = len(static_shape(x))
        return sorted(self.random.sample(range(rank), self.random.randint(1, rank)))

    def dim(self, x: Value) -> int:
        return self.random.randrange(len(static_shape(x)))

    def positions(self, size: int) -> Value:
        """Valid positions along a dim of the given size, computed from a random value."""
        x = self.convert(self.random.choice(self.values), "i64")
        return self.clamp(x, -size, size - 1)

    def floating(self, x: Value) -> Value:
        return x if types.is_float(spelling_of(x)) else self.convert(x, "f32")


def _fits(a: Shape, b: Shape, broadcasts: bool) -> bool:
    if not broadcasts:
        return a == b
    both = pointwise.broadcast_shape(a, b)
    return both is not None and len(both) <= 5 and math.prod(both) <= LARGEST
