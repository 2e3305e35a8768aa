"""Cuts each kernel into tiles: a `scf.forall` over its parallel classes, its body linalg on tiles.

    func @softmax(%x: tensor<256x512xf32>, …)          scf.forall (%i) = (0) to (256) step (1) {
      %m = linalg.generic {max} ins(%x)           →      %xs = tensor.extract_slice %x[%i, 0] [1, 512]
      %e = linalg.generic {exp} ins(%x, %m)              %m = linalg.generic {max} ins(%xs)
      …                                                  %e = linalg.generic {exp} ins(%xs, %m) …

This form is the border between fusion and code generation on a CPU; kernels for GPUs are not tiled. `tile_sizes` says
how large a tile is. Generics marked `cuesta.tail` follow the forall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, bufferization, func, ir, linalg, scf, tensor
from cuesta.dialects import product, types
from cuesta.dialects.affine_maps import projection
from cuesta.dialects.clones import clone_op
from cuesta.dialects.graph_function import argument_attributes, set_argument_attributes
from cuesta.dialects.kernel_fields import BUFFER_LAYOUT, CLASSES, PARALLEL, SHAPE, SIZES
from cuesta.dialects.kernel_module import (
    body_ops,
    count_tiles,
    destination_of,
    kernel_modules,
    operand_classes,
    parameters,
)
from cuesta.dialects.named_linalg import fill, is_fill, is_index, transpose
from cuesta.dialects.types import index_value, row_major, shape_of, spelling_of, strided
from cuesta.dialects.upstream_fields import INDEX_DIM, ITERATOR_TYPES
from cuesta.passes.analysis.launches import launches_of, traced_parameters
from cuesta.passes.infra.graph_rewrite import functions, is_unused
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.tiles.tile_sizes import loop_order, tiled_generics, tiles_of
from cuesta.sizes import Number, Size, hints

Value: TypeAlias = ir.Value

#: Most elements of a tile that is transposed because loops walk it against its memory order: it stays in L2.
_TRANSPOSED = 1 << 14
_EMPTY = tensor.EmptyOp.OPERATION_NAME


@dataclass
class Tiler:
    """The tiles of one kernel. A tensor is described by the classes of its dims."""

    sizes: list[Number]
    tiles: dict[int, int]
    offsets: dict[int, Value] = field(default_factory=dict)
    #: class → elements along it in a tile, if that depends on the call or on the tile
    extents: dict[int, Value] = field(default_factory=dict)
    #: old value → tile; the tile of an argument is made on first use
    values: dict[Value, Value] = field(default_factory=dict)
    destinations: dict[Value, Value] = field(default_factory=dict)
    #: operands of matrix products, which pack them as they need
    factors: set[Value] = field(default_factory=set)

    def kept(self, classes: Sequence[int]) -> list[int]:
        """The classes for which a tile still has a dim."""
        return [c for c in classes if self.tiles.get(c, 0) != 1]

    def extent(self, c: int) -> int:
        if c in self.extents:
            return ir.ShapedType.get_dynamic_size()
        size = self.tiles.get(c, self.sizes[c])
        assert isinstance(size, int)
        return size

    def tile_type(self, classes: Sequence[int], spelling: str) -> ir.Type:
        return ir.RankedTensorType.get([self.extent(c) for c in self.kept(classes)], types.element(spelling))

    def bounds(self, classes: Sequence[int]) -> tuple[list[Value], list[Value], list[int], list[int]]:
        """(dynamic offsets, dynamic sizes, static offsets, static sizes) of the tile in a tensor of these `classes`."""
        offsets = [self.offsets[c] for c in classes if c in self.offsets]
        extents = [self.extents[c] for c in classes if c in self.extents]
        marker = ir.ShapedType.get_dynamic_stride_or_offset()
        static = [marker if c in self.offsets else 0 for c in classes]
        return offsets, extents, static, [self.extent(c) for c in classes]

    def slice(self, whole: Value, classes: Sequence[int]) -> Value:
        offsets, extents, static, sizes = self.bounds(classes)
        kind = self.tile_type(classes, spelling_of(whole))
        return tensor.extract_slice(kind, whole, offsets, extents, [], static, sizes, [1] * len(classes))

    def insert(self, tile: Value, whole: Value, classes: Sequence[int]) -> None:
        offsets, extents, static, sizes = self.bounds(classes)
        tensor.parallel_insert_slice(tile, whole, offsets, extents, [], static, sizes, [1] * len(classes))

    def fresh(self, classes: Sequence[int], spelling: str) -> Value:
        """An empty tile. If the last tile along a class may be smaller, it is a slice of a tile of full, static size,
        which can be on the stack."""
        kept = self.kept(classes)
        sizes = [self.tiles.get(c, self.extents.get(c, self.sizes[c])) for c in kept]
        whole = tensor.EmptyOp(sizes, types.element(spelling)).result
        if not any(c in self.tiles and c in self.extents for c in kept):
            return whole
        inside = [self.extents[c] for c in kept if c in self.extents]
        static = [self.extent(c) for c in kept]
        ones, zeros = [1] * len(kept), [0] * len(kept)
        return tensor.extract_slice(self.tile_type(classes, spelling), whole, [], inside, [], zeros, static, ones)

    def emit(self, op: ir.Operation) -> None:
        """Emits one generic on tiles."""
        classes = CLASSES.of(op)
        accesses = operand_classes(op)
        loops = self.kept(classes)
        outputs = len(op.results)
        inputs = list(op.operands)[:-outputs]
        tiles = [self.read(v, c) for v, c in zip(inputs, accesses, strict=False)]
        inits = [self.init(v, c) for v, c in zip(list(op.operands)[-outputs:], accesses[-outputs:], strict=True)]
        orders = [self.order(v, c) for v, c in zip(op.operands, accesses, strict=True)]
        maps = [projection(len(loops), [loops.index(c) for c in order]) for order in orders]
        kinds = [k for k, c in zip(ITERATOR_TYPES.of(op), classes, strict=True) if c in loops]
        new = linalg.GenericOp(
            [v.type for v in inits], tiles, inits, ir.ArrayAttr.get(maps), ITERATOR_TYPES.write(kinds)
        )
        if product.panels_of(op) is not None:
            product.ROLES.put(new, [loops.index(c) for c in product.roles_of(op)])
            product.TILE.put(new, product.TILE.of(op))
        old_block = op.regions[0].blocks[0]
        block = new.regions[0].blocks.append(*[a.type for a in old_block.arguments])
        mapping = dict(zip(old_block.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for inner in body_ops(op):
                if is_index(inner):
                    mapping[inner.results[0]] = self.index(classes[INDEX_DIM.of(inner)], loops)
                else:
                    clone_op(inner, mapping)
        self.values.update(zip(op.results, new.results, strict=True))

    def index(self, c: int, loops: list[int]) -> Value:
        inside = linalg.IndexOp(loops.index(c)).result if c in loops else None
        if c not in self.offsets:
            assert inside is not None
            return inside
        return self.offsets[c] if inside is None else arith.addi(self.offsets[c], inside)

    def read(self, value: Value, classes: Sequence[int]) -> Value:
        """The tile of a value, its dims in the order that `order` gives."""
        if value in self.values:
            return self.values[value]
        # An argument that is also written is read through the loop's shared output.
        tile = self.slice(self.destinations.get(value, value), classes)
        kept, order = self.kept(classes), self.order(value, classes)
        if order != kept:
            tile = transpose(tile, self.fresh(order, spelling_of(tile)), [kept.index(c) for c in order])
        if isinstance(value.owner, ir.Block):
            # A tensor that is read along two sets of classes is two arguments, so the value alone is the key.
            self.values[value] = tile
        return tile

    def order(self, value: Value, classes: Sequence[int]) -> list[int]:
        """The classes of a tile's dims, in memory order. But if the innermost loop walks a read-only argument against
        its memory order, in the loops' order: the tile is transposed. Otherwise each row might be fetched once per
        element, because rows a power of two apart map the elements of a column to a few sets of the cache."""
        kept = self.kept(classes)
        is_read_only = isinstance(value.owner, ir.Block) and value not in self.destinations
        if len(kept) < 2 or kept[-1] == max(kept) or not is_read_only or value in self.factors:
            return kept
        elements = math.prod(self.tiles.get(c, self.sizes[c]) for c in kept)
        return sorted(kept) if isinstance(elements, int) and elements <= _TRANSPOSED else kept

    def init(self, value: Value, classes: Sequence[int]) -> Value:
        """The tile that a generic writes to: a fresh tile, or a slice of the kernel's destination, filled or not."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self.values.get(value) or self.slice(self.destinations[value], classes)
        if owner.name == _EMPTY:
            return self.fresh(classes, spelling_of(value))
        number, destination = owner.operands
        constant = arith.ConstantOp(number.type, number.owner.attributes["value"]).result
        return fill(constant, self.init(destination, classes))


def work_of(op: ir.Operation, sizes: Sequence[Number]) -> Number:
    """Scalar operations of a generic; a transcendental counts as twelve."""
    points = math.prod(sizes[c] for c in CLASSES.of(op))
    return points * sum(12 if inner.name.startswith("math.") else 1 for inner in body_ops(op))


def _tile(function: func.FuncOp) -> None:
    sizes, parallel = SIZES.of(function), set(PARALLEL.of(function))
    entry = function.regions[0].blocks[0]
    tiled = tiled_generics(function)
    tensors = [classes for g in tiled for classes in operand_classes(g) if classes]
    work = sum(work_of(g, sizes) for g in tiled)
    reaches = not _is_written_again(tiled)
    tiles = tiles_of(function, sizes, parallel, tensors, work, reaches)
    tiles = {c: t for c, t in tiles.items() if isinstance(sizes[c], Size) or t < sizes[c]}
    if not tiles or 0 in sizes:
        return
    written: dict[Value, tuple[Value, list[int]]] = {}  # result → (destination argument, classes)
    for g in tiled:
        for result, init, classes in zip(
            g.results, list(g.operands)[-len(g.results) :], operand_classes(g)[-len(g.results) :], strict=True
        ):
            destination = destination_of(init)
            if destination is not None:
                written[result] = (destination, classes)
    order = loop_order(tiles, tensors) if parallel == set(range(len(sizes))) else sorted(tiles)
    given = parameters(function)
    with ir.InsertionPoint(tiled[0]), function.location:
        loop = scf.ForallOp(
            [0] * len(order),
            [given[str(n)] if isinstance(n := sizes[c], Size) else n for c in order],
            [tiles[c] for c in order],
            [destination for destination, _ in written.values()],
        )
        count_tiles(loop, [(sizes[c] + tiles[c] - 1) // tiles[c] for c in order], work)
        tiler = Tiler(sizes, tiles, dict(zip(order, loop.induction_variables, strict=True)))
        back = {c: n - tiles[c] for c in order if isinstance(n := sizes[c], int) and n % tiles[c]} if reaches else {}
        with ir.InsertionPoint(loop.body):
            tiler.offsets |= {c: arith.minui(tiler.offsets[c], index_value(last)) for c, last in back.items()}
            whole = [tiles[c] if c in back else n for c, n in enumerate(sizes)]
            tiler.extents = extents_of(whole, tiles, tiler.offsets, given)
        tiler.factors = {v for g in tiled if product.panels_of(g) is not None for v in g.operands}
        for (destination, _), shared in zip(written.values(), loop.inner_iter_args, strict=True):
            tiler.destinations[destination] = shared
        with ir.InsertionPoint(loop.body):
            for g in tiled:
                with g.location:
                    tiler.emit(g)
            terminator = scf.InParallelOp()
        with ir.InsertionPoint(terminator.regions[0].blocks[0]):
            for (result, (_, classes)), shared in zip(written.items(), loop.inner_iter_args, strict=True):
                tiler.insert(tiler.values[result], shared, classes)
    for result, new in zip(written, loop.results, strict=True):
        result.replace_all_uses_with(new)
    _move_after_loop(entry, loop, tiled)


def _is_written_again(tiled: Sequence[ir.Operation]) -> bool:
    """Whether a kernel reads a tensor that it writes, or sums a product: the last tile may then not recompute a part of
    the tile before it."""
    written = {destination_of(init) for g in tiled for init in list(g.operands)[-len(g.results) :]}
    read = {value for g in tiled for value in list(g.operands)[: -len(g.results)]}
    return bool(written & read) or any(product.panels_of(g) is not None for g in tiled)


def extents_of(
    sizes: Sequence[Number], tiles: dict[int, int], offsets: dict[int, Value], given: dict[str, Value]
) -> dict[int, Value]:
    """Class → elements along it in a tile, if that depends on the call or on the tile."""
    found = {}
    for c, size in enumerate(sizes):
        tile = tiles.get(c)
        if tile == 1 or (isinstance(size, int) and (tile is None or size % tile == 0)):
            continue
        found[c] = given[str(size)] if isinstance(size, Size) else index_value(size)
        if tile is not None:
            found[c] = arith.minsi(index_value(tile), arith.subi(found[c], offsets[c]))
    return found


def _move_after_loop(entry: ir.Block, loop: scf.ForallOp, tiled: list[ir.Operation]) -> None:
    """Erases the ops that the forall replaced; the tail follows the forall already."""
    for g in reversed(tiled):
        g.erase()
    for op in reversed(list(entry.operations)):
        operation = op.operation
        initial = is_fill(operation) or operation.name in (_EMPTY, arith.ConstantOp.OPERATION_NAME)
        if initial and all(is_unused(r) for r in operation.results):
            operation.erase()


@register_pass("tile-kernels")
class TileKernels(Pass):
    """Cuts kernels into tiles."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            launches = launches_of(module)
            for nested in kernel_modules(module):
                for function in list(functions(nested)):
                    if PARALLEL.is_on(function):
                        with hints(traced_parameters(launches.get(function.name.value, ()))):
                            _tile(function)
                        _anchor_results(function)


def _anchor_results(function: func.FuncOp) -> None:
    """Materialises returned values in their destinations; otherwise later passes may replace an unread init."""
    entry = function.regions[0].blocks[0]
    terminator = list(entry.operations)[-1].operation
    tensors = [a for a in entry.arguments if isinstance(a.type, ir.RankedTensorType)]
    destinations = tensors[len(tensors) - len(terminator.operands) :]
    for i, (value, destination) in enumerate(zip(list(terminator.operands), destinations, strict=True)):
        if not isinstance(value.owner, ir.Block) and value.owner.name != scf.ForallOp.OPERATION_NAME:
            with ir.InsertionPoint(terminator), terminator.location:
                anchored = bufferization.materialize_in_destination(destination.type, value, destination)
            terminator.operands[i] = anchored
    spell_layouts(function)


def spell_layouts(function: func.FuncOp) -> None:
    """Gives every argument its layout. Bufferisation then infers a result's layout from the argument that
    holds the result; without layouts it would copy strided destinations into row-major results."""
    entries = []
    for argument, attributes in zip(function.arguments, argument_attributes(function), strict=True):
        entry = {a.name: a.attr for a in attributes}
        if isinstance(argument.type, ir.RankedTensorType) and BUFFER_LAYOUT.name not in entry:
            bound = SHAPE.find_in(entry)
            entry |= BUFFER_LAYOUT.entry(strided(row_major(shape_of(argument)) if bound is None else bound[1]))
        entries.append(entry)
    set_argument_attributes(function, entries)
