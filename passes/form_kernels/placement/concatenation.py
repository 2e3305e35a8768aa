"""Places concatenations: each is a buffer, and its parts are written in place.

    %2 = cat(%0, %1)        one buffer of %4's size; %2 is a view of its first part,
    %4 = cat(%2, %3)   →    and only results of calls into ATen are copied

A part that is itself a concatenation along the same dim is stored in the outer concatenation's buffer too, even if
others read it: the layers of a DenseNet's block, each of which appends to all before it, share one buffer. So is a
concatenation along another dim that nothing else reads, such as an image padded at its sides, then above and below; and
one that is reshaped before, such as rows that are padded each, then all together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir, linalg
from cuesta.dialects import aten
from cuesta.dialects.cuesta.shape import Cat, Reshape
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.layout import Layout, is_dense, memory_order
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.nodes import Item
from cuesta.passes.infra.graph_rewrite import first_of, users
from cuesta.sizes import Number, estimate

Value: TypeAlias = ir.Value


def is_cat(value: Value) -> bool:
    """Whether `value` is the result of a concatenation."""
    return not isinstance(value.owner, ir.Block) and Cat.matches(value.owner)


def is_inner(op: ir.Operation) -> bool:
    """Whether the only use of a concatenation is another one along the same dim, so that both are links of a chain."""
    uses = list(op.results[0].uses)
    if len(uses) != 1:
        return False
    user = uses[0].owner.operation
    return Cat.matches(user) and Cat.dim.of(user) == Cat.dim.of(op)


def outer_of(value: Value) -> ir.Operation | None:
    """The concatenation whose buffer may hold the concatenation `value`: its first user along the same dim, or its only
    user, along any dim. None if there is no such user, or if it takes `value` twice. The buffer of a later user would
    be live as a whole from the definition of `value` on."""
    readers = users(value)
    hosts = [reader for reader in readers if Cat.matches(reader)]
    if len(readers) > 1:
        hosts = [host for host in hosts if Cat.dim.of(host) == Cat.dim.of(value.owner)]
    if not hosts:
        return None
    first = first_of(hosts)
    return None if first.operands[0] == first.operands[1] else _end_of_chain(first)


def _end_of_chain(op: ir.Operation) -> ir.Operation:
    while is_inner(op):
        op = next(iter(op.results[0].uses)).owner.operation
    return op


def operands_of(op: ir.Operation) -> list[Value]:
    """The operands of a chain of concatenations, in order."""
    found: list[Value] = []
    for value in op.operands:
        found += operands_of(value.owner) if is_cat(value) and _is_link(value.owner, op) else [value]
    return found


def _is_link(inner: ir.Operation, op: ir.Operation) -> bool:
    return is_inner(inner) and Cat.dim.of(inner) == Cat.dim.of(op)


def parts(op: ir.Operation, target: Layout) -> list[tuple[Value, Layout]]:
    """The operands of a chain of concatenations, and the place of each within `target`."""
    dim = Cat.dim.of(op)
    result = []
    start: Number = 0
    ones = [1] * len(target.sizes)
    for value in operands_of(op):
        starts: list[Number] = [0] * len(target.sizes)
        starts[dim] = start
        result.append((value, target.slice(starts, ones, shape_of(value))))
        start += shape_of(value)[dim]
    return result


@dataclass(frozen=True)
class Concatenations:
    """Places the concatenations of a function; `wanted` holds the strides of the values that it returns."""

    items: Sequence[Item]
    wanted: Mapping[Value, Sequence[Number]]
    #: operand → (the value to be placed, which equals the operand but for dims of size 1; the operand's dims that it
    #: has), None if no value can be placed
    free_root: Callable[[Value], tuple[Value, list[int]] | None]
    #: makes a fresh buffer for a value, whose dims have this order in memory
    buffer: Callable[[Value, Sequence[int]], Layout]
    memory: MemoryOrder

    def place(self, placed: dict[Value, Layout]) -> None:
        """Adds to `placed` the places of concatenations and of the parts that are written in place."""
        # Outer concatenations first: they are later in the program.
        for item in reversed(self.items):
            if not Cat.matches(item.op) or is_inner(item.op):
                continue
            (value,) = item.op.results
            roots = [self._root(item.op, v, placed) for v in operands_of(item.op)]
            if value not in placed and not any(roots) and not any(map(self._reshaped, operands_of(item.op))):
                continue
            if value not in placed:
                placed[value] = self.buffer(value, order_of(item.op, self.wanted, self.memory))
            for operand, root, (_, part) in zip(
                operands_of(item.op), roots, parts(item.op, placed[value]), strict=True
            ):
                if root is not None and root[0] not in placed:
                    kept = root[1]
                    sizes, strides = (tuple(ns[d] for d in kept) for ns in (part.sizes, part.strides))
                    placed[root[0]] = Layout(part.base, part.offset, sizes, strides)
                elif (inner := self._reshaped(operand)) is not None and inner not in placed:
                    reshaped = part.reshape(shape_of(inner))
                    if reshaped is not None:
                        placed[inner] = reshaped

    def _reshaped(self, value: Value) -> Value | None:
        """The concatenation that an operand reshapes, where nothing else reads it."""
        if isinstance(value.owner, ir.Block) or not Reshape.matches(value.owner):
            return None
        (inner,) = value.owner.operands
        is_own = is_cat(inner) and inner not in self.wanted and value not in self.wanted
        return inner if is_own and len(list(inner.uses)) == len(list(value.uses)) == 1 else None

    def _root(self, op: ir.Operation, value: Value, placed: Mapping[Value, Layout]) -> tuple[Value, list[int]] | None:
        if is_cat(value):
            outer = outer_of(value)
            hosted = value not in self.wanted and outer is not None and outer == op
            return (value, list(range(len(shape_of(value))))) if hosted else None
        root = self.free_root(value)
        return root if root is not None and root[0] not in placed else None


def order_of(op: ir.Operation, wanted: Mapping[Value, Sequence[Number]], memory: MemoryOrder) -> list[int]:
    """The memory order of a concatenation's dims: that of the returned strides (in `wanted`), else of the strides that
    a call requires, else of most elements of those operands that come from calls, else of those whose order is
    known."""
    (value,) = op.results
    sizes = shape_of(value)
    asked: list[Sequence[Number] | None] = [wanted[value]] if value in wanted else []
    for use in value.uses:
        user = use.owner.operation
        if aten.Call.matches(user):
            asked.append(aten.traced_strides(user)[use.operand_number])
    for strides in asked:
        if strides is not None and is_dense(sizes, strides):
            return memory_order(sizes, strides)
    elements: Counter[tuple[int, ...]] = Counter()
    known = [part for part in operands_of(op) if memory.knows(part)]
    for part in [part for part in operands_of(op) if _is_given(part)] or known:
        elements[tuple(memory.order(part))] += estimate(shape_of(part))
    return list(elements.most_common(1)[0][0]) if elements else list(range(len(sizes)))


def _is_given(value: Value) -> bool:
    """Whether a value is a call's result, or a copy of one."""
    while not isinstance(value.owner, ir.Block) and (Reshape.matches(value.owner) or is_copy(value.owner)):
        value = value.owner.operands[0]
    return not isinstance(value.owner, ir.Block) and aten.Call.matches(value.owner)


def is_copy(op: ir.Operation) -> bool:
    """Whether an op is a generic that only copies its operand."""
    if not is_generic(op) or len(op.operands) != 2:
        return False
    return [inner.name for inner in body_ops(op)] == [linalg.YieldOp.OPERATION_NAME]
