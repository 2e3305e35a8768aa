"""Finds the loops that a program of a GPU kernel walks: rows that are reduced both along and down, and short sums of
what lies far apart, such as the two halves of an image's channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.kernel_fields import CLASSES
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.passes.form_kernels.fusion.limits import GPU, STRIP
from cuesta.passes.gpu.block_sizes import WALKED, fastest_classes

#: The most elements of a sum whose program walks them one after the other. All loads of so few turns are in flight
#: together, as the loop is unrolled.
_SHORT = 8


def walked_classes(
    generics: Sequence[ir.Operation], sizes: Sequence[int], parallel: set[int], tensors: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Each class that a program walks, with the most elements that one turn takes. Arguments are those of
    `block_sizes.choose`. None in a kernel that scatters."""
    if any(map(is_scatter, generics)):
        return {}
    rows = _walked_rows(generics, sizes, parallel, tensors)
    return dict.fromkeys(rows, WALKED) or dict.fromkeys(_short_sums(generics, sizes, parallel, tensors), 1)


def _walked_rows(
    generics: Sequence[ir.Operation], sizes: Sequence[int], parallel: set[int], tensors: Sequence[Sequence[int]]
) -> list[int]:
    """The class that counts the rows that a program walks: those of a kernel that reduces rows both along and down, and
    whose program does not hold all of its rows at once. Empty for other kernels."""
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


def _short_sums(
    generics: Sequence[ir.Operation], sizes: Sequence[int], parallel: set[int], tensors: Sequence[Sequence[int]]
) -> list[int]:
    """The classes of few elements, a strip apart or more, that are all that a kernel reduces. In one block these
    elements would be in several threads, and their sums in some of the threads, from where they would go through shared
    memory to the others: a sum of two took 115 µs for 38 MB on an H100."""
    found = [c for c in range(len(sizes)) if c not in parallel]
    apart = all(c in parallel and sizes[c] >= STRIP for c in fastest_classes(sizes, tensors))
    short = 1 < math.prod(sizes[c] for c in found) <= _SHORT and all(_is_read_once(generics, c) for c in found)
    return found if apart and short and can_loop(generics, set(found)) else []


def _is_read_once(generics: Sequence[ir.Operation], c: int) -> bool:
    """Whether no op walks class c that needs what was reduced along it."""
    behind: set[ir.Operation] = set()
    for op in generics:
        needs = any(not isinstance(x.owner, ir.Block) and x.owner in behind for x in op.operands)
        if needs and c in CLASSES.of(op):
            return False
        if needs or (c, REDUCTION) in zip(CLASSES.of(op), ITERATOR_TYPES.of(op), strict=True):
            behind.add(op)
    return True


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
