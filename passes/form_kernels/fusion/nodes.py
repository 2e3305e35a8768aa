"""Describes a linalg function to fusion: its items in program order, and for generics their loops and accesses."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, tensor
from cuesta._mlir import math as functions
from cuesta.dialects import aten, host
from cuesta.dialects.affine_maps import dims_of, operand_dims
from cuesta.dialects.cuesta.shape import SizeOp
from cuesta.dialects.kernel_fields import WindowedDim, WindowParts, window_parts, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.kernel_scatter import KernelScatter, is_scatter, meaning_of
from cuesta.dialects.named_linalg import is_fill, is_generic, is_index
from cuesta.dialects.product import FACTOR, TILE, roles_of
from cuesta.dialects.types import byte_count, shape_of, size_of, spelled
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL
from cuesta.passes.analysis.gathered_loops import gathered
from cuesta.sizes import Number, Size, hint

Value: TypeAlias = ir.Value

#: Ops that are no items: each becomes part of the generics that use it.
_INIT_OPS = tuple(op.OPERATION_NAME for op in (tensor.EmptyOp, linalg.FillOp, arith.ConstantOp, SizeOp))
#: The body of a generic that only widens its operand's type.
_WIDENING = [arith.ExtFOp.OPERATION_NAME, linalg.YieldOp.OPERATION_NAME]


@dataclass(frozen=True)
class Read:
    """One operand of a generic, `bytes` large: loop `dims[i]` indexes dim i of `value`."""

    value: Value
    dims: tuple[int, ...]
    bytes: int


@dataclass
class Item:
    """One op of the host function; `index` is its position among the items."""

    index: int
    op: ir.Operation
    #: Items whose results this item needs.
    sources: set[int] = field(default_factory=set)


@dataclass
class Node(Item):
    """A linalg.generic, or a kernel.scatter."""

    sizes: tuple[Number, ...] = ()
    parallel: tuple[bool, ...] = ()
    reads: tuple[Read, ...] = ()
    #: Tensors that the body reads at computed positions.
    gathers: tuple[Value, ...] = ()
    #: For each result, the loop of each dim. A scatter has -1 - k for a dim whose position its operand 1 + k holds.
    writes: tuple[tuple[int, ...], ...] = ()
    uses_index: bool = False
    #: Whether the node only widens a tensor's type.
    widens: bool = False
    #: For a matrix product: the loops of M, N and K, and its tile.
    product: tuple[int, int, int] | None = None
    tile: str | None = None
    #: What the product's left factor is where its kernel computes it (dialects/product.py).
    factor: str | None = None
    #: Whether the node is elementwise, and computes such a factor from another product.
    makes_factor: bool = False
    #: For a sum of products of the windows of the one tensor that it gathers: the dims that these move along, and the
    #: parts of the sum if it is over the windows themselves.
    windows: tuple[WindowedDim, ...] = ()
    window_parts: WindowParts | None = None
    #: For a scatter: the tensor that it writes to.
    base: Value | None = None

    @functools.cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """The node's loops, named as in a `Space` of several nodes."""
        return tuple((self.index, d) for d in range(len(self.sizes)))

    @functools.cached_property
    def hints(self) -> tuple[int, ...]:
        """The size of each loop, an estimate if it is symbolic."""
        return tuple(hint(size) for size in self.sizes)

    @functools.cached_property
    def elements(self) -> int:
        """Points of the iteration space, an estimate if a size is symbolic."""
        return math.prod(self.hints)

    @functools.cached_property
    def body(self) -> list[ir.Operation]:
        """The ops of the node's body, the yield last."""
        return list(body_ops(self.op))

    @functools.cached_property
    def is_cheap(self) -> bool:
        """Whether recomputing the node takes no longer than writing its result to a computed position."""
        return not any(op.name.startswith("math.") for op in self.body)

    @functools.cached_property
    def is_dear(self) -> bool:
        """Whether to compute an element takes far longer than to read it: a power is about 100 instructions of a GPU's,
        where an exponential is two."""
        return any(op.name == functions.PowFOp.OPERATION_NAME for op in self.body)

    @property
    def is_elementwise(self) -> bool:
        """Whether the node computes each element of its results by itself."""
        return self.product is None and self.base is None and all(self.parallel)

    def is_free(self, scatters: bool) -> bool:
        """Whether recomputing the node costs next to nothing in its kernel: it is cheap, and either the kernel scatters
        or the node reads no tensor, only loop indices."""
        return self.is_cheap and (scatters or (not self.reads and not self.gathers and all(self.parallel)))

    @functools.cached_property
    def computed_with(self) -> tuple[Size, ...]:
        """The symbolic sizes that the body computes with."""
        return tuple(size_of(op) for op in self.body if SizeOp.matches(op))

    @functools.cached_property
    def body_key(self) -> tuple[object, ...]:
        """Equal for nodes that compute the same function of their reads, `gathers` and `computed_with`, in order."""
        if self.base is not None:
            return tuple((name, str(attribute)) for name, attribute in meaning_of(self.op).items())
        names: dict[Value, object] = {v: ("gathered", i) for i, v in enumerate(self.gathers)}
        names |= {a: ("arg", i) for i, a in enumerate(self.op.regions[0].blocks[0].arguments)}
        key = []
        for i, op in enumerate(self.body):
            attributes = () if SizeOp.matches(op) else tuple((k, str(v)) for k, v in op.attributes.items())
            results = list(op.results)
            kinds = tuple(spelled(r.type) for r in results)
            key.append((op.name, tuple(names[v] for v in op.operands), attributes, kinds))
            names |= {result: ("op", i, j) for j, result in enumerate(results)}
        return tuple(key)

    @functools.cached_property
    def initial_numbers(self) -> tuple[str | None, ...]:
        """For each result, the text of the number that it is initialised with; None if it is not initialised."""
        numbers: list[str | None] = []
        for init in list(self.op.operands)[-len(self.results) :]:
            owner = init.owner
            filled = not isinstance(owner, ir.Block) and is_fill(owner)
            numbers.append(str(owner.operands[0].owner.attributes["value"]) if filled else None)
        return tuple(numbers)

    @functools.cached_property
    def results(self) -> list[Value]:
        return list(self.op.results)

    @functools.cached_property
    def result_hints(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each result, an estimate if it is symbolic."""
        return tuple(tuple(map(hint, shape_of(result))) for result in self.results)

    @functools.cached_property
    def result_bytes(self) -> tuple[int, ...]:
        """Bytes that each result takes in memory; an estimate if its sizes are symbolic."""
        return tuple(map(byte_count, self.results))


def counted(nodes: Sequence[Node]) -> list[int]:
    """The indices of the nodes that compute with loop indices alone, such as positions: every tile of a GPU may as well
    count."""
    found, made = [], set[Value]()
    for node in nodes:
        if node.is_cheap and all(node.parallel) and not node.gathers and {r.value for r in node.reads} <= made:
            found.append(node.index)
            made.update(node.results)
    return found


def is_check(op: ir.Operation) -> bool:
    """Whether an op runs for the error that it may raise: a check, or a call without results."""
    return not op.results and (host.Check.matches(op) or aten.Call.matches(op))


def collect(block: ir.Block, atomics: bool = False, written: Collection[Value] = ()) -> list[Item]:
    """The items of a function of the linalg level: everything but initial values and the return.

    `atomics` is `FusionLimits.atomics`; `written` holds the new values of arguments that the graph writes to.
    """
    items: list[Item] = []
    owner: dict[Value, int] = {}
    last_random: int | None = None
    last_check: int | None = None
    for op_view in block.operations:
        op = op_view.operation
        if op.name in _INIT_OPS or isinstance(op_view, func.ReturnOp):
            continue
        item = _item(len(items), op, atomics)
        operands = [*op.operands, *(item.gathers if isinstance(item, Node) else ())]
        item.sources = {owner[v] for v in operands if v in owner}
        if aten.Call.matches(op) and aten.is_random(aten.Call.overload.of(op)):
            # Random ops draw from one generator, so they keep their order.
            if last_random is not None:
                item.sources.add(last_random)
            last_random = item.index
        if last_check is not None and (is_check(op) or is_scatter(op) or any(r in written for r in op.results)):
            # No write may run if a check before it fails, and of several failing checks the first must raise.
            item.sources.add(last_check)
        if is_check(op):
            last_check = item.index
        for result in op.results:
            owner[result] = item.index
        items.append(item)
    _mark_makers([item for item in items if isinstance(item, Node)])
    return items


def _mark_makers(nodes: Sequence[Node]) -> None:
    """Marks the elementwise nodes that compute a product's left factor from the results of other products."""
    writer = {result: node for node in nodes for result in node.results}
    #: Products, and elementwise nodes that compute with what such make.
    made: set[Value] = set()
    for node in nodes:
        if node.product is not None or (all(node.parallel) and any(read.value in made for read in node.reads)):
            made.update(node.results)
    pending = [node.reads[0].value for node in nodes if node.factor is not None]
    while pending:
        value = pending.pop()
        if value in made and (node := writer[value]).product is None and not node.makes_factor:
            node.makes_factor = True
            pending += [read.value for read in node.reads]


def _item(index: int, op: ir.Operation, atomics: bool) -> Item:
    if is_scatter(op):
        return _scatter_of(index, op, atomics)
    return node_of(index, op) if is_generic(op) else Item(index, op)


def _scatter_of(index: int, op: ir.Operation, atomics: bool) -> Node:
    """Describes a scatter as a node. Loops that walk the written tensor are parallel. The other loops are parallel only
    if writes may happen in any order (`atomics`)."""
    maps = [dims_of(m) for m in KernelScatter.indexing_maps.of(op)]
    *inputs, base = list(op.operands)
    walks = tuple(KernelScatter.walks.of(op))
    sizes: list[Number] = [1] * len(maps[0])
    for size, d in zip(shape_of(inputs[0]), maps[0], strict=True):
        sizes[d] = size
    reads = tuple(Read(v, m, byte_count(v)) for v, m in zip(inputs, maps, strict=True))
    parallel = tuple(atomics or d in walks for d in range(len(sizes)))
    return Node(index, op, set(), tuple(sizes), parallel, reads, base=base, writes=(walks,))


def node_of(index: int, op: ir.Operation) -> Node:
    """Describes a generic as a node, without its sources."""
    maps = operand_dims(op)
    outputs = len(op.results)
    inputs = list(op.operands)[: len(maps) - outputs]
    reads = tuple(Read(v, m, byte_count(v)) for v, m in zip(inputs, maps, strict=False))
    writes = tuple(maps[len(inputs) :])
    parallel = tuple(kind == PARALLEL for kind in ITERATOR_TYPES.of(op))
    sizes: list[Number] = [1] * len(parallel)
    for value, dims in [(r.value, r.dims) for r in reads] + list(zip(op.results, writes, strict=True)):
        for size, d in zip(shape_of(value), dims, strict=True):
            sizes[d] = size
    body = [inner.name for inner in body_ops(op)]
    return Node(
        index,
        op,
        set(),
        tuple(sizes),
        parallel,
        reads,
        tuple(dict.fromkeys(gathered(op))),
        writes,
        any(map(is_index, body_ops(op))),
        widens=body == _WIDENING,
        product=roles_of(op) if TILE.is_on(op) else None,
        tile=TILE.find(op),
        factor=FACTOR.find(op),
        windows=tuple(windowed_dims(op)),
        window_parts=window_parts(op),
    )
