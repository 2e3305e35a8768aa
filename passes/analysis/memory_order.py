"""Infers the memory order of a graph's tensors, before form-kernels decides their layouts.

form-kernels gives a computed tensor the memory order of its largest operand. So the strides of arguments and of calls
into libraries determine the order of whole chains of ops. Where no strides are known, tensors count as row-major.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.cuesta import Cuesta, pointwise, reduction
from cuesta.dialects.cuesta.contraction import Depthwise, DepthwiseWeight, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.indexing import Window
from cuesta.dialects.cuesta.shape import Cat, Copy, Expand, Permute, Reshape, Slice
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_function import argument_strides
from cuesta.dialects.kernel_fields import ROW_MAJOR, WINDOWS
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import TILE
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.analysis.gathered_loops import gathered, gathered_loops, walked
from cuesta.passes.analysis.layout import copied_order, dense_strides, memory_order, view_strides
from cuesta.sizes import Number, estimate, hint

Strides = tuple[Number, ...]
_ELEMENTWISE = names_of(
    *pointwise.OPS.values(), pointwise.Where, pointwise.Convert, *(reduction.OPS[row.name] for row in reduction.ROWS)
)


class MemoryOrder:
    """Caches its answers: use one object for all values of a function."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Strides | None] = {}
        self._orders: dict[ir.Value, list[int]] = {}

    def order(self, value: ir.Value) -> list[int]:
        """The dims of `value` from the slowest to the fastest in memory."""
        order = self._orders.get(value)
        if order is None:
            strides, sizes = self._strides(value), shape_of(value)
            order = list(range(len(sizes))) if strides is None else memory_order(sizes, strides)
            self._orders[value] = order
        return order

    def knows(self, value: ir.Value) -> bool:
        """Whether the order follows from known strides; otherwise row-major is a guess."""
        return self._strides(value) is not None

    def is_aligned(self, value: ir.Value, multiple: int) -> bool:
        """Whether all rows of `value` are known to begin at multiples of `multiple` bytes from its begin."""
        strides, width = self._strides(value), byte_size(spelling_of(value))
        return strides is not None and all(
            stride == 1 or (isinstance(stride, int) and stride * width % multiple == 0) for stride in strides
        )

    def _strides(self, value: ir.Value) -> Strides | None:
        if value in self._known:
            return self._known[value]
        # Operands first: recursion alone would go as deep as the graph.
        for above in self._unknown_above(value):
            if above not in self._known:
                self._known[above] = None  # ends the recursion where a value depends on itself
                self._known[above] = _said(above) or self._derived(above)
        return self._known[value]

    def _unknown_above(self, value: ir.Value) -> list[ir.Value]:
        """The values that `value` is computed from whose strides are not known yet, operands before results, and itself
        last."""
        found: dict[ir.Value, None] = {}
        pending = [(value, False)]
        while pending:
            current, visited = pending.pop()
            if visited:
                found[current] = None
            elif current not in self._known and current not in found:
                pending.append((current, True))
                if not isinstance(current.owner, ir.Block) and _said(current) is None:
                    pending += [(operand, False) for operand in _read_by(current.owner.operation)]
        return list(found)

    def _derived(self, value: ir.Value) -> Strides | None:
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if is_generic(op):
            return self._of_generic(op, value)
        if not Cuesta.owns(op):
            return None
        if Permute.matches(op):
            strides = self._strides(op.operands[0])
            return None if strides is None else tuple(strides[d] for d in Permute.dims.of(op))
        if Reshape.matches(op):
            (x,) = op.operands
            if (strides := self._repeated(x)) is None:
                return None
            found = view_strides(shape_of(x), strides, shape_of(value))
            if found is None:
                copied = dense_strides(shape_of(x), reshaped_order(op, strides))
                found = view_strides(shape_of(x), copied, shape_of(value))
            return found
        if Window.matches(op):  # the places of a pool's windows lie as the images do
            (x,) = op.operands
            strides = self._strides(x)
            return None if strides is None else dense_strides(shape_of(value), memory_order(shape_of(x), strides))
        if reduction.row_of(op) is not None:
            return self._of_reduction(op, value)
        if Slice.matches(op):
            strides = self._strides(op.operands[0])
            return None if strides is None else tuple(n * s for n, s in zip(strides, Slice.steps.of(op), strict=True))
        if Cat.matches(op):
            # form-kernels takes the order of most parts. Here: the order of the largest part whose order is known.
            parts = sorted(op.operands, key=lambda x: -estimate(shape_of(x)))
            part = next((strides for x in parts if (strides := self._strides(x)) is not None), None)
            return None if part is None else dense_strides(shape_of(value), memory_order(shape_of(value), part))
        like = (x for x in op.operands if shape_of(x) == shape_of(value))
        return next((strides for x in like if (strides := self._strides(x)) is not None), None)

    def _of_reduction(self, op: ir.Operation, value: ir.Value) -> Strides | None:
        """The strides of a result whose dims lie as those that the reduction keeps."""
        (x, *_) = op.operands
        if (strides := self._strides(x)) is None:
            return None
        rank, dims = len(shape_of(x)), reduction.Reduced.dims.of(op)
        kept = [d for d in range(rank) if d not in dims or len(shape_of(value)) == rank]
        order = [kept.index(d) for d in memory_order(shape_of(x), strides) if d in kept]
        return dense_strides(shape_of(value), order)

    def _repeated(self, value: ir.Value) -> Strides | None:
        """The strides of a value, or if it repeats another along some dims, of that, with 0 along these."""
        if isinstance(value.owner, ir.Block) or not Expand.matches(value.owner):
            return self._strides(value)
        (x,) = value.owner.operands
        if (strides := self._strides(x)) is None:
            return None
        lead = len(shape_of(value)) - len(strides)
        own = zip(strides, shape_of(x), shape_of(value)[lead:], strict=True)
        return (*[0] * lead, *(stride if old == new else 0 for stride, old, new in own))

    def _of_generic(self, op: ir.Operation, value: ir.Value) -> Strides | None:
        """The strides of a result in the memory order of an operand that has all of the result's loops."""
        maps = operand_dims(op)
        inputs = list(op.operands)[: -len(op.results)]
        own = maps[len(inputs) + list(op.results).index(value)]
        for x, dims in zip(inputs, maps, strict=False):
            if set(own) <= set(dims) and (strides := self._strides(x)) is not None:
                order = sorted(own, key=lambda loop: -hint(strides[dims.index(loop)]))
                return dense_strides(shape_of(value), [own.index(loop) for loop in order])
        for x, loops in gathered_loops(op):
            if set(own) <= {loop for dim in loops for loop in dim} and (given := self._strides(x)) is not None:
                order = walked(loops, memory_order(shape_of(x), given))
                return dense_strides(shape_of(value), [own.index(loop) for loop in order if loop in own])
        return None


def reshaped_order(reshape: ir.Operation, strides: Sequence[Number]) -> list[int]:
    """The order of the dims, from the slowest to the fastest, of a copy of a reshape's operand, which has `strides`.
    What is repeated along a dim keeps its order, as far as dims that merge allow, where all that reads the reshape
    computes element by element. Other copies are row-major: products and calls read rows, and so do norms."""
    sizes, target = shape_of(reshape.operands[0]), shape_of(reshape.results[0])
    is_repeated = any(stride == 0 and size != 1 for stride, size in zip(strides, sizes, strict=True))
    if is_repeated and _takes_any_order(reshape.results[0]):
        return copied_order(sizes, strides, target)
    return list(range(len(sizes)))


def _takes_any_order(value: ir.Value) -> bool:
    """Whether all that reads a value, or a view of it, are kernels of ours that multiply no matrices."""
    readers = [use.owner.operation for use in value.uses]
    views = (Permute, Reshape, Expand, Slice)
    return bool(readers) and all(
        _takes_any_order(op.results[0]) if any(view.matches(op) for view in views) else _computes(op) for op in readers
    )


def _computes(op: ir.Operation) -> bool:
    if is_generic(op):
        return not TILE.is_on(op)
    return Cuesta.owns(op) and op.name in _ELEMENTWISE


def _read_by(op: ir.Operation) -> list[ir.Value]:
    """The tensors that an op reads, those in a generic's body too."""
    return [*op.operands, *(gathered(op) if is_generic(op) else ())]


def _said(value: ir.Value) -> Strides | None:
    """The strides that an attribute gives for an argument, a call's result or a copy. A sum over windows is always
    row-major, with its channels last, and so are a product of pixels, a permute that is written and its copy."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        strides = argument_strides(value)
        return None if strides is None else tuple(strides)
    is_row_major = WINDOWS.is_on(owner) or ROW_MAJOR.is_on(owner) or _is_written(owner)
    reads_windows = Depthwise.matches(owner) or DepthwiseWeight.matches(owner)  # before it is a generic
    if is_row_major or reads_windows or multiplies_pixels(owner):
        return dense_strides(shape_of(value), range(len(shape_of(value))))
    traced = RESULT_STRIDES.find(owner)
    if traced is not None:
        return tuple(traced[list(owner.results).index(value)])
    return tuple(Copy.strides.of(owner)) if Copy.matches(owner) else None


def _is_written(op: ir.Operation) -> bool:
    """Whether an op is a permute whose result is written to memory."""
    return Permute.matches(op) and Permute.written.is_on(op)


def multiplies_pixels(op: ir.Operation) -> bool:
    """Whether an op is a product in a kernel of ours, or the generic that it becomes, whose rows are several dims, such
    as the pixels of images."""
    is_product = MatMul.product.is_on(op) if MatMul.matches(op) else TILE.is_on(op)
    return is_product and len(shape_of(op.operands[0])) > 2 and len(shape_of(op.operands[1])) == 2
