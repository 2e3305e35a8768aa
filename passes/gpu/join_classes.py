"""Joins loops of a GPU kernel that have one extent and run one after the other.

    func @f {cuesta.parallel = [0], cuesta.sizes = [64, 512, 512]}        {…, cuesta.sizes = [64, 512]}
      linalg.generic … {cuesta.classes = [0, 1]}   a sum along rows    →    linalg.generic … {cuesta.classes = [0, 1]}
      linalg.generic … {cuesta.classes = [0, 2]}   what follows             linalg.generic … {cuesta.classes = [0, 1]}

Nothing ties the two loops together where the ops that follow compute the rows anew. But a block has a dim for each
class, and Triton lays all of a block's values out for one of the dims: each thread would hold the other dim whole. A
layer norm's gradient whose rows were read through two views took 41 ms this way, where its bytes take 0.06.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import func, ir
from cuesta.dialects.kernel_fields import CLASSES, PARALLEL, SIZES, windowed_dims
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import tile_of
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number


@register_pass("join-classes")
class JoinClasses(Pass):
    """Joins sequential classes of equal size that no op walks together."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for function in functions(nested):
                    _join(function)


def _join(function: func.FuncOp) -> None:
    ops = [o.operation for o in function.regions[0].blocks[0].operations]
    walking = [op for op in ops if is_generic(op) or is_scatter(op)]
    # Products and windows have roles for their classes.
    if any(is_generic(op) and (tile_of(op) is not None or windowed_dims(op)) for op in walking):
        return
    sizes, parallel = SIZES.of(function), PARALLEL.of(function)
    spaces = [set(CLASSES.of(op)) for op in walking]
    joined: dict[int, int] = {}
    for c in range(len(sizes)):
        into = next((d for d in range(c) if d not in joined and _may_join(c, d, sizes, parallel, spaces)), None)
        if into is not None:
            joined[c] = into
            spaces = [{into if own == c else own for own in space} for space in spaces]
    if not joined:
        return
    left = [c for c in range(len(sizes)) if c not in joined]
    number = {c: left.index(joined.get(c, c)) for c in range(len(sizes))}
    for op in walking:
        CLASSES.put(op, [number[c] for c in CLASSES.of(op)])
    SIZES.put(function, [sizes[c] for c in left])
    PARALLEL.put(function, [number[c] for c in parallel])


def _may_join(c: int, d: int, sizes: Sequence[Number], parallel: Sequence[int], spaces: Sequence[set[int]]) -> bool:
    if c in parallel or d in parallel or sizes[c] != sizes[d]:
        return False
    return not any({c, d} <= space for space in spaces)
