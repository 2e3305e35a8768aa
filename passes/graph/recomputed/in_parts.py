"""Takes what a reduction reads in another shape: the pointwise ops that make it are repeated in that shape, as far as
this moves less memory than a reshape of their result."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cuesta._mlir import ir
from cuesta.dialects import aten, maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.contraction import Depthwise, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.indexing import Window
from cuesta.dialects.cuesta.shape import Expand, Permute, Reshape, Slice, Unfold
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of, spelling_of
from cuesta.passes.analysis.match import only_has_ones
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped_operand
from cuesta.passes.infra.graph_rewrite import users
from cuesta.sizes import Number

_B = GraphBuilder()

#: A reduction recomputes a value itself only if that moves at most this many times the value's bytes.
_MOST_MOVED = 8
#: Ops whose result is in memory in any case, whoever reads it.
_IN_MEMORY = names_of(Reshape, Permute, Slice, Unfold, Expand) | {aten.Call.OPERATION_NAME}


def in_parts(x: ir.Value, shape: list[Number], made: dict[ir.Value, ir.Value] | None = None) -> ir.Value:
    """x in `shape`: the pointwise ops that make x are repeated in this shape. `made` gets old result → new result."""
    sizes = shape_of(x)

    def view(value: ir.Value) -> ir.Value:
        own = reshaped_operand(shape_of(value), sizes, shape)
        assert own is not None  # each dim of `sizes` is a run of its own in `shape`
        return _B.reshape(value, own)

    return viewed(x, shape, view, made)


def viewed(
    x: ir.Value,
    shape: list[Number],
    view: Callable[[ir.Value], ir.Value],
    computed: dict[ir.Value, ir.Value] | None = None,
) -> ir.Value:
    """x in `shape`: the pointwise ops that make x are repeated in this shape, on operands taken through `view`.

    A reshape between these ops and the reduction would keep them out of the reduction's kernel, and x in memory. That
    is better where x is computed from much more data, or from several places of a pool's window: each of them would be
    in memory instead. It is also better where x is what a kernel makes of its sums and rounds: the sums would be in
    memory, or what they are rounded to beside x.
    """
    sizes = shape_of(x)
    made: dict[ir.Value, ir.Value] = {}
    known: dict[ir.Value, dict[ir.Value, int]] = {}

    def visit(value: ir.Value) -> ir.Value:
        if value not in made:
            op = maker(value)
            moved = _traffic(value, known)
            is_much = sum(moved.values()) > _MOST_MOVED * byte_count(value) or _reads_window(moved)
            is_better_read = is_much or _ends_kernel(value)
            if op is None or op.name not in POINTWISE or shape_of(value) != sizes or is_better_read:
                made[value] = view(value)
            else:
                kind = types.tensor(shape, spelling_of(value))
                made[value] = repeat_op(op, [visit(v) for v in op.operands], kind).results[0]
                if computed is not None:
                    computed[value] = made[value]
        return made[value]

    return visit(x)


def _traffic(value: ir.Value, known: dict[ir.Value, dict[ir.Value, int]]) -> dict[ir.Value, int]:
    """Value that pointwise ops compute `value` from → the bytes it moves; incomplete once the sum is over the limit."""
    if value in known:
        return known[value]
    op, sizes = maker(value), shape_of(value)
    found: dict[ir.Value, int] = {}
    if op is None or op.name not in POINTWISE:
        found[value] = byte_count(value) * (1 if op is None or op.name in _IN_MEMORY else 2)
    else:
        for operand in op.operands:
            if shape_of(operand) == sizes and sum(found.values()) <= _MOST_MOVED * byte_count(value):
                found |= _traffic(operand, known)
    known[value] = found
    return found


def _reads_window(moved: Collection[ir.Value]) -> bool:
    """Whether the values `moved` are several places of a window, as of a pool."""
    return sum(maker(value, Window) is not None for value in moved) > 1


def _ends_kernel(value: ir.Value) -> bool:
    """Whether pointwise ops make a value of the sums that a kernel of ours computes and no reduction joins, such as a
    convolution's, and of nothing else that is made of them: the kernel rounds it to less than the sums."""
    sums, pending = set[ir.Value](), [value]
    while pending:
        op = maker(pending.pop())
        if op is None or op.name not in POINTWISE:
            continue
        for x in op.operands:
            if _is_kernels(x):
                sums.add(x)
            elif shape_of(x) == shape_of(value) and len(users(x)) == 1:
                pending.append(x)
    return any(byte_count(value) < byte_count(x) for x in sums)


def _is_kernels(value: ir.Value) -> bool:
    op = maker(value)
    while op is not None and (Permute.matches(op) or only_has_ones(op)):
        op = maker(op.operands[0])
    return op is not None and (Depthwise.matches(op) or MatMul.product.is_on(op))
