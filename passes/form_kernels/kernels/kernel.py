"""Brings a group into normal form as a kernel: tensors in memory order, loops in one global order, dims merged
where memory allows. Equal kernels have equal keys, whatever layer or shape spelling they came from.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.product import is_in_panels
from cuesta.dialects.types import spelling_of
from cuesta.passes.analysis.gathered_loops import gathered_loops, walked
from cuesta.passes.analysis.layout import Layout, dense_strides, memory_order
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.sizes import Number, Size, estimate

Value: TypeAlias = ir.Value
Class = int

#: More elements than any tensor has; sorts a sequence of classes first.
_FIRST = 1 << 63


@dataclass(eq=False)
class Operand:
    """A tensor of the kernel, its dims in memory order: class `classes[i]` walks dim i. For a scatter's result
    `classes[i]` may be -1 - k: operand 1 + k of the node holds the position along that dim."""

    value: Value
    spelling: str
    classes: list[Class]
    sizes: list[Number]
    strides: list[Number]
    #: For each dim of the tensor, the dim of `value` that it is.
    dims: list[int]
    #: For an argument: the place that the host passes. For a tensor inside the kernel: None.
    layout: Layout | None = None
    #: For a gathered tensor: position of each dim of the value within `sizes`, None if stride 0 dropped the dim.
    positions: list[int | None] | None = None

    @property
    def base(self) -> int | None:
        """The number of the buffer that holds the tensor; None if the tensor has no place yet."""
        return None if self.layout is None else self.layout.base

    def walked_as(self, other: Operand) -> bool:
        """Whether loops walk both tensors alike, so that one may be stored in the memory of the other."""
        return (
            self.spelling == other.spelling
            and self.classes == other.classes
            and self.sizes == other.sizes
            and self.strides == other.strides
        )

    @property
    def contiguous(self) -> bool:
        return self.strides == list(dense_strides(self.sizes, range(len(self.sizes))))


@dataclass
class KernelNode:
    """A generic of the kernel, its loops in global order."""

    node: Node
    loops: list[Class]
    tail: bool
    reads: list[Operand]
    results: list[Operand]


@dataclass
class Kernel:
    """A kernel as the outliner emits it and the host launches it."""

    nodes: list[KernelNode]
    sizes: dict[Class, Number]
    order: list[Class]
    parallel: list[Class]
    inputs: list[Operand]
    outputs: list[Operand]
    inner: list[Operand]
    gathered: list[Operand]
    #: Node index → class → loop of the original generic; for a merged class any one of its loops, which are all alike.
    loop_of: dict[int, dict[Class, int]]

    @property
    def parameters(self) -> list[Size]:
        """The sizes and strides that depend on the call, each once. A launch passes them beside its buffers."""
        numbers: list[Number] = [self.sizes[c] for c in self.order]
        for operand in (*self.inputs, *self.gathered, *self.outputs, *self.inner):
            numbers += [*operand.sizes, *operand.strides]
        for kn in self.nodes:
            numbers += kn.node.computed_with
        return list(dict.fromkeys(n for n in numbers if isinstance(n, Size)))

    @property
    def shared(self) -> dict[int, Operand]:
        """Inputs, by id, that are the memory of an earlier one, walked along other classes, in a kernel that computes a
        product's left factor: they are one argument, so that the kernel can tell. A gradient of attention reads its
        keys as rows and as columns."""
        if not any(kn.node.factor is not None for kn in self.nodes):
            return {}
        first: dict[object, Operand] = {}
        places = ((o, (o.base, o.layout and o.layout.offset, *o.sizes, *o.strides, o.spelling)) for o in self.inputs)
        return {id(o): one for o, place in places if (one := first.setdefault(place, o)) is not o}

    @property
    def given(self) -> list[Operand]:
        """The inputs that are arguments."""
        shared = self.shared
        return [o for o in self.inputs if id(o) not in shared]

    @property
    def tensors(self) -> list[Operand]:
        """Every tensor that a loop walks."""
        return [*self.inputs, *self.outputs, *self.inner]


def build_kernel(
    group: Group,
    layouts: dict[Value, Layout],
    outputs: Sequence[Value],
    preferred: dict[Value, list[int]],
    placed: dict[Value, Layout],
) -> Kernel:
    """The normal form of `group`, whose `outputs` are read outside it.

    `layouts` places every value that the group reads. `preferred` maps an output to the memory order of its
    dims, if one is required; `placed` maps an output to a place in an existing buffer, whose order then counts.
    """
    numbers: dict[object, Class] = {}

    def class_of(node: Node, loop: int) -> Class:
        return numbers.setdefault(group.space.classes[node.index][loop], len(numbers))

    members = group.members
    in_tail = {n.index for n in group.tail}
    loops = {n.index: [class_of(n, d) for d in range(len(n.sizes))] for n in members}
    sizes = {c: s for n in members for c, s in zip(loops[n.index], n.sizes, strict=True)}
    written = {r: (n, dims) for n in members for r, dims in zip(n.results, n.writes, strict=True)}

    reduced = {loops[n.index][d] for n in members for d, free in enumerate(n.parallel) if not free}
    inputs = _inputs(members, loops, written, layouts, reduced)
    order = _class_order(
        list(inputs.values()), _gathered_classes(members, loops, layouts), written, loops, preferred, placed, sizes
    )
    rank = {c: i for i, c in enumerate(order)}
    results = _Results(loops, sizes, written, rank)
    made = {
        v: results.output(v, preferred.get(v), placed.get(v)) if v in set(outputs) else results.dense(v)
        for v in written
    }

    def kernel_node(node: Node) -> KernelNode:
        reads = [
            made[r.value] if r.value in made else inputs[r.value, tuple(loops[node.index][d] for d in r.dims)]
            for r in node.reads
        ]
        own_loops = sorted(loops[node.index], key=rank.__getitem__)
        return KernelNode(node, own_loops, node.index in in_tail, reads, [made[r] for r in node.results])

    parallel = {numbers[group.space.find(root)] for root in group.parallel}
    return Kernel(
        nodes=[kernel_node(n) for n in members],
        sizes=sizes,
        order=order,
        parallel=[c for c in order if c in parallel],
        inputs=list(inputs.values()),
        outputs=[made[v] for v in outputs],
        inner=[o for v, o in made.items() if v not in set(outputs)],
        gathered=[_gathered(v, layouts[v]) for v in dict.fromkeys(v for n in members for v in n.gathers)],
        loop_of={index: {c: d for d, c in enumerate(classes)} for index, classes in loops.items()},
    )


@dataclass(frozen=True)
class _Results:
    """Where the nodes of a group write: node index → the classes of its loops, the size of each class, value → the node
    that writes it and the loop of each of its dims, and the place of each class in the kernel's order."""

    loops: Mapping[int, list[Class]]
    sizes: Mapping[Class, Number]
    written: Mapping[Value, tuple[Node, tuple[int, ...]]]
    rank: Mapping[Class, int]

    def dense(self, value: Value, order: Sequence[int] | None = None) -> Operand:
        """A result without gaps, its dims in `order`, or else in that of the kernel's classes."""
        node, dims = self.written[value]
        classes = [self.loops[node.index][d] for d in dims]
        if order is None:
            order = sorted(range(len(dims)), key=lambda i: self.rank[classes[i]])
        classes = [classes[i] for i in order]
        shape = [self.sizes[c] for c in classes]
        return Operand(
            value, spelling_of(value), classes, shape, list(dense_strides(shape, range(len(shape)))), list(order)
        )

    def output(self, value: Value, order: Sequence[int] | None, place: Layout | None) -> Operand:
        """A result in a place of an existing buffer, if it has one."""
        if place is None:
            return self.dense(value, order)
        node, dims = self.written[value]
        return _place(value, [self.loops[node.index][d] if d >= 0 else d for d in dims], place)


def _inputs(
    members: Sequence[Node],
    loops: Mapping[int, list[Class]],
    written: Container[Value],
    layouts: Mapping[Value, Layout],
    reduced: Collection[Class],
) -> dict[tuple[Value, tuple[Class, ...]], Operand]:
    """What the nodes read that none of them writes. A value that is read along two sets of classes is two arguments."""
    inputs: dict[tuple[Value, tuple[Class, ...]], Operand] = {}
    for node in members:
        for read in node.reads:
            classes = tuple(loops[node.index][d] for d in read.dims)
            if read.value not in written and (read.value, classes) not in inputs:
                inputs[read.value, classes] = _place(read.value, classes, layouts[read.value], reduced)
    return inputs


def _place(value: Value, classes: Sequence[Class], layout: Layout, reduced: Collection[Class] = ()) -> Operand:
    """The tensor in memory order. A broadcast dim (stride 0) is dropped, unless a reduction runs over it:
    the reduction takes the loop's bound from one of its operands."""
    in_order = memory_order(layout.sizes, layout.strides)
    order = [d for d in in_order if layout.strides[d] != 0 or classes[d] in reduced]
    return Operand(
        value,
        spelling_of(value),
        [classes[d] for d in order],
        [layout.sizes[d] for d in order],
        [layout.strides[d] for d in order],
        order,
        Layout(
            layout.base,
            layout.offset,
            tuple(layout.sizes[d] for d in order),
            tuple(layout.strides[d] for d in order),
        ),
    )


def _gathered(value: Value, layout: Layout) -> Operand:
    placed = _place(value, list(range(len(layout.sizes))), layout)
    positions = [placed.classes.index(d) if d in placed.classes else None for d in range(len(layout.sizes))]
    placed.positions = positions
    placed.classes = []
    return placed


def _gathered_classes(
    members: Sequence[Node], loops: Mapping[int, list[Class]], layouts: Mapping[Value, Layout]
) -> list[tuple[int, list[Class]]]:
    """For each tensor that is read at computed positions, the elements that its reader makes of it, and the classes
    along which these go through memory. Tensors that are walked count before it if they have as many elements."""
    found: list[tuple[int, list[Class]]] = []
    for node in members:
        for value, dims in gathered_loops(node.op) if node.gathers and not node.windows else ():
            order = walked(dims, memory_order(layouts[value].sizes, layouts[value].strides))
            found.append((estimate(node.sizes) - 1, [loops[node.index][d] for d in order]))
    return found


def _class_order(
    inputs: Sequence[Operand],
    gathered: Sequence[tuple[int, list[Class]]],
    written: dict[Value, tuple[Node, tuple[int, ...]]],
    loops: dict[int, list[Class]],
    preferred: dict[Value, list[int]],
    placed: dict[Value, Layout],
    sizes: dict[Class, Number],
) -> list[Class]:
    """One order of all classes, slowest first: as the largest tensors lie in memory, then as the longest nests walk."""
    sequences: list[tuple[int, list[Class]]] = [(estimate(o.sizes), o.classes) for o in inputs]
    sequences += gathered
    for value in _found_among(preferred, written):
        if value not in placed:
            node, dims = written[value]
            classes = [loops[node.index][dims[i]] for i in preferred[value]]
            # A required order takes precedence over inputs of the same size.
            sequences.append((estimate(sizes[c] for c in classes) + 1, classes))
    for value in _found_among(placed, written):
        (node, dims), layout = written[value], placed[value]
        walks: list[int] = []
        for i in memory_order(layout.sizes, layout.strides):  # a scattered dim counts as its position's loops
            walks += [dims[i]] if dims[i] >= 0 else node.reads[-dims[i]].dims
        classes = list(dict.fromkeys(loops[node.index][d] for d in walks))
        sequences.append((estimate(sizes[c] for c in classes) + 1, classes))
    for node, dims in written.values():
        if is_in_panels(node.tile):  # rows, then panels, then a panel's columns, which vectors run along
            rows = node.reads[0].dims
            sequences.append((_FIRST, [loops[node.index][d] for d in sorted(dims, key=lambda d: d not in rows)]))
    sequences.sort(key=lambda s: -s[0])
    sequences += [(0, own) for own in sorted(loops.values(), key=len, reverse=True)]
    order: list[Class] = []
    for _, classes in sequences:
        after = -1
        for c in classes:
            if c in order:
                after = order.index(c)
            else:
                after += 1
                order.insert(after, c)
    return order


def _found_among(values: Mapping[Value, object], written: Mapping[Value, object]) -> Collection[Value]:
    """The few of a graph's `values` that a kernel has written, in the order of `values`, which are many."""
    found = values.keys() & written.keys()
    return found if len(found) < 2 else [value for value in values if value in found]


def collapse(kernel: Kernel) -> None:
    """Merges neighbouring classes into one wherever every tensor is walked along both as along one."""
    i = 0
    while i + 1 < len(kernel.order):
        outer, inner = kernel.order[i], kernel.order[i + 1]
        if _collapsible(kernel, outer, inner):
            _merge_classes(kernel, outer, inner)
        else:
            i += 1
    _choose_rows(kernel)


#: Rows that fill most of a block. A first convolution of 256 images took three times as long in blocks of one pixel of
#: 128 images as it takes in blocks of 112 pixels of a row.
_LONG = 64


def _choose_rows(kernel: Kernel) -> None:
    """Makes M of a product the longest of its rows' classes, of those of `_LONG` and more the innermost: blocks cut it,
    and rows that lie side by side in memory are loaded together. Which of the dims of rows become one class is known
    only now: in a kernel that scales each image by numbers of its own, the pixels of an image, but not all images."""
    products = [kn for kn in kernel.nodes if kn.node.product is not None]
    if not products or any(kn.node.factor is not None or is_in_panels(kn.node.tile) for kn in products):
        return
    rows = [c for c in kernel.order if c in kernel.parallel]
    rows = [c for c in rows if all(c in kn.reads[0].classes and c not in kn.reads[1].classes for kn in products)]
    if not rows:
        return
    chosen = max(rows, key=lambda c: (min(estimate([kernel.sizes[c]]), _LONG), kernel.order.index(c)))
    for kn in products:
        assert kn.node.product is not None
        loop_of = kernel.loop_of[kn.node.index]
        before = next(c for c in kn.loops if loop_of[c] == kn.node.product[0])
        loop_of[chosen], loop_of[before] = loop_of[before], loop_of[chosen]


def _collapsible(kernel: Kernel, outer: Class, inner: Class) -> bool:
    if (outer in kernel.parallel) != (inner in kernel.parallel):
        return False
    for kn in kernel.nodes:
        present = [c in kn.loops for c in (outer, inner)]
        if not any(present):
            continue
        if not all(present) or kn.node.uses_index:
            return False
        if kn.node.product is not None:  # blocks cut N and K, but not the neighbouring classes
            cut = {c for c in kn.loops if kernel.loop_of[kn.node.index][c] in kn.node.product[1:]}
            if cut & {outer, inner}:
                return False
        kinds = [kn.node.parallel[kernel.loop_of[kn.node.index][c]] for c in (outer, inner)]
        if kinds[0] != kinds[1]:
            return False
    for operand in kernel.tensors:
        present = [c in operand.classes for c in (outer, inner)]
        if not any(present):
            continue
        if not all(present):
            return False
        at = operand.classes.index(outer)
        if at + 1 >= len(operand.classes) or operand.classes[at + 1] != inner:
            return False
        if operand.strides[at] != operand.sizes[at + 1] * operand.strides[at + 1]:
            return False
    return True


def _merge_classes(kernel: Kernel, outer: Class, inner: Class) -> None:
    kernel.sizes[outer] *= kernel.sizes[inner]
    kernel.order.remove(inner)
    if inner in kernel.parallel:
        kernel.parallel.remove(inner)
    for kn in kernel.nodes:
        if inner in kn.loops:
            kn.loops.remove(inner)
            loop_of = kernel.loop_of[kn.node.index]
            if kn.node.product is not None and loop_of[inner] == kn.node.product[0]:
                loop_of[outer] = loop_of[inner]
    for operand in kernel.tensors:
        if inner in operand.classes:
            at = operand.classes.index(outer)
            operand.sizes[at] *= operand.sizes[at + 1]
            operand.strides[at] = operand.strides[at + 1]
            for column in (operand.classes, operand.sizes, operand.strides):
                del column[at + 1]
