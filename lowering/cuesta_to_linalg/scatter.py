"""Lowers writes at computed positions to `kernel.scatter`, over the loops of the written values.

%2 = cuesta.scatter(%x, %v, %i) {walks = [-1, 1], combine = "add"}
→    %2 = kernel.scatter(%v, %i, %x) {walks = [-1, 1], combine = "add", element = "f32"}

As in generics, no loop walks a dim of size 1, and x keeps such a dim only if an index gives the position along it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.affine_maps import projection
from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.kernel_scatter import KernelScatter
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.indexing import check_range
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import Number

_B = GraphBuilder()


@lowers(Scatter)
def lower_scatter(b: LinalgBuilder, op: ir.Operation) -> None:
    x, value, *indices = op.operands
    sizes, given, walks = shape_of(x), shape_of(value), Scatter.walks.of(op)
    if not Scatter.in_range.is_on(op):
        for d, walk in enumerate(walks):
            if walk < 0:
                check_range(b, indices[-1 - walk], sizes[d], -sizes[d] if Scatter.wraps.is_on(op) else 0)
    loops = [d for d, n in enumerate(given) if n != 1]
    kept = [d for d, walk in enumerate(walks) if walk < 0 or sizes[d] != 1]
    accesses = [b.covering_access(value, loops), *(_in_memory(b, i, given, loops) for i in indices)]
    base = _B.reshape(b.full_form(x), [sizes[d] for d in kept])
    written = KernelScatter.build(
        [*(a.source for a in accesses if a.source is not None), base],
        [base.type],
        indexing_maps=[projection(len(loops), a.dims).value for a in accesses],
        walks=[loops.index(walks[d]) if walks[d] >= 0 else walks[d] for d in kept],
        combine=Scatter.combine.of(op),
        element=spelling_of(x),
        wraps=Scatter.wraps.find(op),
        in_range=b.checks or Scatter.in_range.find(op) or None,  # the checks run before anything is written
    )
    b.full[op.results[0]] = _B.reshape(written.results[0], sizes)


def _in_memory(b: LinalgBuilder, index: ir.Value, sizes: Sequence[Number], loops: Sequence[int]) -> Access:
    """The access of an index on `loops`; a constant or a range is materialised."""
    access = b.access(index)
    if access.source is None:
        own = b.on_loops(access, access.dims)
        source = b.generic([own], [sizes[d] for d in access.dims], access.spelling, lambda s, x: x)
        access = Access(source, access.dims, access.spelling)
    return b.on_loops(access, loops)
