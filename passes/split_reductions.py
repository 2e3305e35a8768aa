"""Reduces in two steps where one would leave most of a GPU idle.

    %1 = cuesta.sum(%0) {dims = [0]}         %a = cuesta.reshape %0 : 8192x768 → 64x128x768
      : 8192x768 → 768                  →    %b = cuesta.sum(%a) {dims = [1]} : 64x128x768 → 64x768
                                             %1 = cuesta.sum(%b) {dims = [0]} : 64x768 → 768

Partial results of narrow floats stay in f32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.graph_rewrite import rewrite_ops
from cuesta.passes.registry import Pass, register_pass

Value: TypeAlias = ir.Value
_B = GraphBuilder()

#: Elements that one result takes from which on splitting pays for a second kernel.
LONG = 2048
#: Results that a program reduces side by side where the last dim is kept.
STRIP = 32


def parts(sizes: Sequence[int], dims: Sequence[int], wanted: int) -> dict[int, int]:
    """Reduced dim → the number of parts that it is cut in, about `wanted` parts in all, from the first dim on."""
    chosen: dict[int, int] = {}
    for d in sorted(dims):
        if wanted < 2:
            break
        limit = min(sizes[d], wanted)
        divisor = max(n for n in range(1, limit + 1) if sizes[d] % n == 0)
        if divisor > 1:
            chosen[d] = divisor
            wanted //= divisor
    return chosen


@register_pass("split-reductions")
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Splits reductions that too few programs would share."""

    #: Programs that keep a GPU busy.
    programs: int = 264

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {f"cuesta.{name}": self._split for name in reduction.BY_NAME})

    def _split(self, op: ir.Operation) -> list[Value] | None:
        (x,) = op.operands
        sizes, dims = shape_of(x), ints(op.attributes["dims"])
        reduced = math.prod(sizes[d] for d in dims)
        kept = [d for d in range(len(sizes)) if d not in dims and sizes[d] > 1]
        programs = math.prod(sizes[d] for d in kept)
        if kept and kept[-1] > max(d for d in dims):
            programs = max(programs // STRIP, 1)
        if reduced < LONG or programs >= self.programs // 2:
            return None
        # Each part stays long enough to be worth a program.
        wanted = min(4 * self.programs // programs, reduced // (LONG // 16))
        cut = parts(sizes, dims, wanted)
        if math.prod(cut.values()) < 4:
            return None
        return [self._two_steps(op, x, cut)]

    def _two_steps(self, op: ir.Operation, x: Value, cut: dict[int, int]) -> Value:
        name, dims = op.name.removeprefix("cuesta."), ints(op.attributes["dims"])
        wide = opmath(spelling_of(x))
        shape: list[int] = []
        first: list[int] = []
        for d, size in enumerate(shape_of(x)):
            if d in cut:
                shape.append(cut[d])
            if d not in cut or size != cut[d]:
                if d in dims:
                    first.append(len(shape))
                shape.append(size // cut.get(d, 1))
        partial = _B.reduce(name, _B.reshape(_B.convert(x, wide), shape), first)
        # What is left of each cut dim stands where it stood, among the kept ones.
        second, at = [], 0
        for d in range(len(shape_of(x))):
            if d in cut:
                second.append(at)
            if d in cut or d not in dims:
                at += 1
        total = _B.reduce(name, partial, second)
        return _B.convert(_B.reshape(total, shape_of(op.results[0])), spelling_of(op.results[0]))
