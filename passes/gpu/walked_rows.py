"""Finds the loops that a program of a GPU kernel can walk, such as rows that are reduced both along and down."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.kernel_fields import CLASSES
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.passes.form_kernels.fusion.limits import GPU
from cuesta.passes.gpu.block_sizes import fastest_classes


def walked_rows(
    generics: Sequence[ir.Operation], sizes: Sequence[int], parallel: set[int], tensors: Sequence[Sequence[int]]
) -> list[int]:
    """The class that counts the rows that a program walks: those of a kernel that reduces rows both along and down, and
    whose program does not hold all of its rows at once. Empty for other kernels. Arguments are those of
    `block_sizes.choose`."""
    if any(map(is_scatter, generics)):
        return []
    # Of each generic its loops, and the classes that it reduces. `along` are the classes of a row.
    kinds = [list(zip(CLASSES.of(op), ITERATOR_TYPES.of(op), strict=True)) for op in generics]
    reduced = [{c for c, kind in loops if kind == REDUCTION} for loops in kinds]
    fastest = fastest_classes(sizes, tensors)
    along = {c for own in reduced if own & fastest for c in own}
    down = [own for loops, own in zip(kinds, reduced, strict=True) if own and along & ({c for c, _ in loops} - own)]
    kept = {c for loops, own in zip(kinds, reduced, strict=True) if own & along for c, _ in loops if c not in own}
    found = sorted(kept & set[int]().union(*down))
    held = math.prod(n for c, n in enumerate(sizes) if c not in parallel)
    crosses = bool(along) and held > (GPU.staged_elements or 0) and len(found) == 1
    return found if crosses and can_loop(generics, set(found)) else []


def can_loop(generics: Sequence[ir.Operation], walked: set[int]) -> bool:
    """Whether loops may walk the classes `walked`: a generic that reduces one of them must reduce all of them that it
    walks."""
    for op in generics:
        if is_scatter(op):  # all its loops are parallel
            continue
        classes = CLASSES.of(op)
        reduced = {c for c, kind in zip(classes, ITERATOR_TYPES.of(op), strict=True) if kind == REDUCTION}
        if reduced & walked and not walked & set(classes) <= reduced:
            return False
    return True
