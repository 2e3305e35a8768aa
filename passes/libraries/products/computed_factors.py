"""Makes kernels of products whose left factor is pointwise work on other products, such as attention's gradients; a
part of call-libraries.

    %s = cuesta.mm(%q, %k^T)                      %s = cuesta.mm(%q, %k^T) {product = "64x64x64/4/3"}
    %p = cuesta.exp(%s - %l)                      %p = cuesta.exp(%s - %l)
    %g = cuesta.mm(%do, %v^T)                →    %g = cuesta.mm(%do, %v^T) {product = "64x64x64/4/3"}
    %d = cuesta.mul(%p, %g)                       %d = cuesta.mul(%p, %g)
    %r = cuesta.mm(%d, %k)                        %r = cuesta.mm(%d, %k) {product = "64x64x64/4/3", computed}

On a GPU form-kernels fuses all of it: a program has a block of rows and walks along K, and no tensor of scores is in
memory. Each such product gets ops of its own for its factor, because recomputing them is cheaper than memory: the ops
are marked with the product's number, so that cse does not join them with another product's. Where form-kernels makes
one kernel of two such products, it drops what both brought. A factor that is transposed is computed transposed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.indexing import Index
from cuesta.dialects.cuesta.pointwise import Where, broadcast_shape
from cuesta.dialects.cuesta.shape import Constant, Expand, Iota, Permute, Reshape
from cuesta.dialects.fields import Int
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import LEAST, Tile
from cuesta.dialects.types import opmath, shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped
from cuesta.passes.infra import graph_rewrite
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, users
from cuesta.passes.libraries.products.narrow_factors import narrow_factors
from cuesta.sizes import Number, hint
from cuesta.sizes.powers import power_at_least

_B = GraphBuilder()
#: On an op that computes a product's left factor: the number of that product. On a copy of one of `_COPIED` as well:
#: the number of its reader.
_PART, _READER = Int("cuesta.part"), Int("cuesta.reader")
#: The largest side of a factor of attention, a head: a program's sums and a block of factors fit a multiprocessor.
LARGEST = 128
#: Rows of a block, how much of K it takes at a time, warps, and stages of the loop along K, as measured on an H200 with
#: sides of up to `_NARROW` and of more.
_NARROW = 64
_PLAIN = (64, 64, 4, 3), (128, 64, 8, 3)
#: For transposed factors. Their products come in pairs, whose sums must fit the registers together.
_TURNED = (64, 64, 4, 3), (64, 64, 4, 2)
_MASKED = (64, 32, 4, 3), (64, 64, 4, 2)
#: The most products that a factor is computed from, and the most values that are looked at on the way to them.
_MOST, _LONGEST = 2, 200
_ON_THE_WAY = {*POINTWISE, Expand.OPERATION_NAME}
#: Ops, beside pointwise ones, that are computed again for each product if they have at most so many elements.
_COPIED, _FEW = names_of(Iota, Constant, Reshape, Index), 4096
#: An op, such as a power, that costs as many additions takes longer than to read its result: cheaper ones, such as an
#: exponential, are a few instructions of a GPU's.
_DEAR = 30


def compute_factors(module: ir.Module, kinds: Collection[str]) -> None:
    """Rewrites the products of a module whose left factor may be computed in their kernel, from factors of one of the
    types `kinds`."""
    part = 0
    for function in functions(module):
        ops = [view.operation for view in function.regions[0].blocks[0].operations]
        for op in [op for op in ops if MatMul.matches(op) and not MatMul.product.is_on(op)]:
            part += _rewrite(op, kinds, part)
    erase_dead(module)


def _rewrite(op: ir.Operation, kinds: Collection[str], part: int) -> bool:
    """Rewrites one product if that is possible."""
    left, right = op.operands
    view = maker(unreshaped(left), Permute)
    turned = view is not None and _swaps_last(Permute.dims.of(view))
    value = unreshaped(view.operands[0]) if turned and view is not None else unreshaped(left)
    rank = len(shape_of(value))
    if len(shape_of(op.operands[0])) != 3 or rank < 3 or not _keeps_matrices(left, value, turned):
        return False
    chain = _Chain.of(value, turned, part)
    if chain is None:
        return False
    *batch, m, k = chain.sizes
    n, sides = shape_of(right)[-1], [shape_of(product.operands[0])[-1] for product in chain.products]
    known = [size for size in (m, k, n, *sides) if isinstance(size, int)]
    if len(known) < 3 + len(sides) or not all(isinstance(size, int) for size in batch):
        return False
    with ir.InsertionPoint(op):
        factors = [narrow_factors(product) or list(product.operands) for product in chain.products]
    types = {spelling_of(x) for x in (value, right, *(x for pair in factors for x in pair))}
    if len(types) > 1 or not types <= {*kinds} or min(known) < LEAST or max(known[2:]) > LARGEST:
        return False
    with ir.InsertionPoint(op), named("factor", op):
        tile = _tile(known[0], known[2], max(known[2:]), chain)
        chain.make(dict(zip(chain.products, factors, strict=True)), tile)
        product = multiplied(chain.computed(value), right, [*batch, m, k], [*batch, k, n], tile)
        MatMul.computed.mark(product.owner)
        put(op, product)
    return True


def put(op: ir.Operation, product: ir.Value) -> None:
    """Replaces a product by another, in the type and with the dims of the old one's result."""
    (result,) = op.results
    graph_rewrite.replace(op, [_B.reshape(_B.convert(product, spelling_of(result)), shape_of(result))])


def multiplied(a: ir.Value, b: ir.Value, left: Sequence[Number], right: Sequence[Number], tile: Tile) -> ir.Value:
    """The product of two factors of these sizes, a kernel with its sums in the type that the right one is summed in."""
    kind = tensor([*left[:-1], right[-1]], opmath(spelling_of(b)))
    product = MatMul(_matrices(a, left), _matrices(b, right), kind).result
    MatMul.product.put(product.owner, str(tile))
    return product


def _matrices(x: ir.Value, sizes: Sequence[Number]) -> ir.Value:
    """x with these sizes. Where it is transposed matrices, what they are transposed from gets more dims, or fewer: then
    a reshape below, of heads that were merged, is not parted from the one that undoes it."""
    view = maker(unreshaped(x), Permute)
    if view is None or not _swaps_last(Permute.dims.of(view)) or not _keeps_matrices(x, view.operands[0], turned=True):
        return reshaped(x, sizes)
    *batch, m, n = sizes
    return _B.permute(reshaped(view.operands[0], [*batch, n, m]), [*range(len(batch)), len(batch) + 1, len(batch)])


@dataclass
class _Chain:
    """What computes a factor: pointwise ops on products, with the factor's sizes as they are wanted."""

    sizes: list[Number]
    turned: bool
    part: int
    products: list[ir.Operation]
    #: Values that the products lead to.
    derived: set[ir.Value]
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)
    readers: int = 0

    @staticmethod
    def of(value: ir.Value, turned: bool, part: int) -> _Chain | None:
        """What computes `value`; None where it is computed in another way."""
        *batch, m, k = shape_of(value)
        chain = _Chain([*batch, *((k, m) if turned else (m, k))], turned, part, [], set())
        seen: set[ir.Value] = set()
        if not chain._derive(value, seen) or not 1 <= len(chain.products) <= _MOST or len(seen) > _LONGEST:
            return None
        return chain if all(chain._is_whole(x, value) for x in chain.derived) else None

    def _derive(self, value: ir.Value, seen: set[ir.Value]) -> bool:
        """Whether a product leads to a value; enters it, and what leads to it."""
        if value in seen or len(seen) > _LONGEST:
            return value in self.derived
        seen.add(value)
        op = maker(value)
        if op is None:
            return False
        if MatMul.matches(op) and not MatMul.product.is_on(op) and len(shape_of(value)) == 3:
            self.products.append(op)
            found = True
        elif op.name in _ON_THE_WAY or (Reshape.matches(op) and shape_of(op.operands[0])[-2:] == shape_of(value)[-2:]):
            reached = [self._derive(x, seen) for x in op.operands]  # all of them, to enter each
            found = any(reached)
        else:
            return False
        if found:
            self.derived.add(value)
        return found

    def _is_whole(self, value: ir.Value, whole: ir.Value) -> bool:
        """Whether a derived value has the factor's shape, or is a product that a reshape gives this shape."""
        op = maker(value)
        fits = op is not None and MatMul.matches(op) and math.prod(shape_of(value)) == math.prod(shape_of(whole))
        return fits or shape_of(value) == shape_of(whole)

    def make(self, factors: dict[ir.Operation, Sequence[ir.Value]], whole: Tile) -> None:
        """Makes the products anew from these factors, transposed if the whole is; `whole` is the tile of the whole."""
        *batch, m, k = self.sizes
        for op, (a, b) in factors.items():
            (depth,) = static_shape(a)[-1:]
            if self.turned:
                a, b = _turned(b), _turned(a)
            tile = replace(whole, n=whole.k, k=power_at_least(depth))
            product = multiplied(a, b, [*batch, m, depth], [*batch, depth, k], tile)
            _PART.put(product.owner, self.part)
            self.made[op.results[0]] = _B.convert(product, spelling_of(op.results[0]))

    def computed(self, value: ir.Value) -> ir.Value:
        """A value of the chain, or what one reads, computed for this product alone; made once."""
        if value not in self.made:
            self.made[value] = self._compute(value)
        return self.made[value]

    def _compute(self, value: ir.Value) -> ir.Value:
        op = maker(value)
        if op is None:
            return self._view(value)
        if Reshape.matches(op) and value in self.derived:
            return self.computed(op.operands[0])
        if Expand.matches(op):  # its readers are pointwise, and broadcast
            return self.computed(op.operands[0])
        if op.name in POINTWISE and not self._is_read(op):
            operands = [self.computed(x) for x in op.operands]
            sizes = broadcast_shape(*map(shape_of, operands))
            assert sizes is not None
            return self._repeated(op, operands, sizes)
        self.readers += 1
        return self._view(self._copied(value))

    def _is_read(self, op: ir.Operation) -> bool:
        """Whether the kernel reads an op's result, which another writes once: it is dear, and would be computed several
        times, for each matrix of a batch or for each product that reads it. Few elements are computed again."""
        (value,) = op.results
        row, count = pointwise.row_of(op), hint(math.prod(shape_of(value)))
        if value in self.derived or row is None or row.cost < _DEAR or count <= _FEW:
            return False
        return count < hint(math.prod(self.sizes)) or self._is_shared(value)

    def _is_shared(self, value: ir.Value) -> bool:
        """Whether several ops read a value, or what is computed from it alone on the way to the products."""
        while value not in self.derived and len(readers := users(value)) == 1 and len(readers[0].results) == 1:
            value = readers[0].results[0]
        return value not in self.derived

    def _copied(self, value: ir.Value) -> ir.Value:
        """A few positions or numbers, computed again for each reader, which then computes them in its own loops; any
        other value itself."""
        op = maker(value)
        if op is None or not (op.name in _COPIED or op.name in POINTWISE) or hint(math.prod(shape_of(value))) > _FEW:
            return value
        copy = self._repeated(op, [self._copied(x) for x in op.operands], shape_of(value))
        _READER.put(copy.owner, self.readers)
        return copy

    def _repeated(self, op: ir.Operation, operands: Sequence[ir.Value], sizes: Sequence[Number]) -> ir.Value:
        copy = repeat_op(op, operands, tensor(sizes, spelling_of(op.results[0])))
        _PART.put(copy, self.part)
        return copy.results[0]

    def _view(self, value: ir.Value) -> ir.Value:
        """A value of which the chain reads the elements, transposed if the whole is."""
        if not self.turned or not shape_of(value):
            return value
        if len(shape_of(value)) == 1:
            return _B.reshape(value, [*shape_of(value), 1])
        return _turned(value)


def _turned(x: ir.Value) -> ir.Value:
    """x with its last two dims swapped."""
    *batch, m, n = range(len(shape_of(x)))
    return _B.permute(x, [*batch, n, m])


def _swaps_last(dims: Sequence[int]) -> bool:
    *batch, m, n = dims
    return [*batch, n, m] == list(range(len(dims)))


def _keeps_matrices(left: ir.Value, value: ir.Value, turned: bool) -> bool:
    """Whether the operand of a product has the matrices of a value, or their transposes, in the same order."""
    m, k = shape_of(value)[-2:]
    return shape_of(left)[-2:] == ((k, m) if turned else (m, k))


def _tile(rows: int, columns: int, side: int, chain: _Chain) -> Tile:
    """The tile of a product whose columns, and the factors of its own factor, are up to `side` wide: a program has all
    columns."""
    is_masked = any((op := maker(x)) is not None and Where.matches(op) for x in chain.derived)
    tiles = _PLAIN if not chain.turned else _MASKED if is_masked else _TURNED
    m, k, warps, stages = tiles[side > _NARROW]
    return Tile(min(m, power_at_least(rows)), power_at_least(columns), k, warps, stages)
