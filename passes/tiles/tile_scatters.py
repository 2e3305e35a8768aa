"""Writes each kernel that has a scatter (a write at computed positions) as loops.

    func @index_add(%v: tensor<256x768xf32>,        scf.forall (%j) = (0) to (768) step (256) {
                    %i: tensor<256xi64>, %x)    →     scf.for %n = 0 to 256 {
      kernel.scatter(%v, %i, %x)                        scf.for %k = 0 to 256 {
                                                          %x[%i[%n], %j + %k] += %v[%n, %j + %k] } } }

Tiles run over the loops that walk the written tensor itself. Along the loops that positions depend on, writes are
sequential. The values to be written are computed in the same tiles, one row at a time, or in runs of elements if there
are no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, scf, tensor
from cuesta.dialects.kernel_fields import CLASSES, PARALLEL, SIZES
from cuesta.dialects.kernel_module import argument_shapes, count_tiles, kernel_modules, operand_classes, parameters
from cuesta.dialects.kernel_scatter import KernelScatter, combined, is_scatter, position
from cuesta.dialects.named_linalg import is_fill, is_generic
from cuesta.passes.infra.graph_rewrite import functions, is_unused
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.tiles.tile_kernels import Tiler, extents_of, spell_layouts, work_of
from cuesta.passes.tiles.tile_sizes import Limits, largest_divisor, tile_sizes
from cuesta.sizes import Number, Size

Value: TypeAlias = ir.Value

#: Elements of a run of values that are computed before they are written, if they form no row: the run stays in L1.
_RUN = 1024
#: Strips are wide, because each strip reads every position. Adding 4096 rows of 256 up in 1000 rows takes, in strips of
#: 256, 0.86 of the time that it takes in strips of 64.
_LIMITS = Limits(strip=256)


@dataclass
class _Writer:
    """The loops of one kernel with a scatter. Classes numbered after the kernel's own stand for dims that are written
    at computed positions."""

    function: func.FuncOp
    op: ir.Operation
    generics: list[ir.Operation]
    sizes: list[Number]
    parallel: set[int]
    given: dict[str, Value]
    #: the classes of the written tensor's dims, and class → the number of the index operand that holds its position
    target: list[int] = field(default_factory=list)
    indexed: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def read(function: func.FuncOp, op: ir.Operation) -> _Writer:
        entry = function.regions[0].blocks[0]
        generics = [o.operation for o in entry.operations if is_generic(o.operation)]
        parallel = set(PARALLEL.of(function))
        writer = _Writer(function, op, generics, SIZES.of(function), parallel, parameters(function))
        whole, _ = argument_shapes(function)[op.operands[-1]]
        classes = CLASSES.of(op)
        for walk, size in zip(KernelScatter.walks.of(op), whole, strict=True):
            if walk >= 0:
                writer.target.append(classes[walk])
                continue
            writer.target.append(len(writer.sizes))
            writer.indexed[len(writer.sizes)] = -1 - walk
            writer.sizes.append(size)
        return writer

    @property
    def loops(self) -> list[int]:
        """The kernel's own classes."""
        return list(range(len(self.sizes) - len(self.indexed)))

    def tiles(self) -> dict[int, int]:
        """Class → its size in a tile, for the classes that tiles cut."""
        tensors = [classes for op in (*self.generics, self.op) for classes in operand_classes(op) if classes]
        sizes = [self.sizes[c] for c in self.loops]
        tiles = tile_sizes(sizes, self.parallel, tensors, _LIMITS)
        serial = [c for c in self.loops if c not in self.parallel]
        rows = max(self.loops, default=-1) in self.parallel
        for c in serial:
            tiles[c] = 1
        if serial and not rows:
            size = sizes[serial[-1]]
            tiles[serial[-1]] = _RUN if isinstance(size, Size) else largest_divisor(size, _RUN)
        return {c: t for c, t in tiles.items() if isinstance(sizes[c], Size) or t < sizes[c]}

    def write(self) -> None:
        """Replaces the scatter, and the generics before it, by loops."""
        tiles = self.tiles()
        shared = sorted(c for c in tiles if c in self.parallel)
        serial = sorted(c for c in tiles if c not in self.parallel)
        whole = self.op.operands[-1]
        with ir.InsertionPoint(self.op), self.op.location:
            result = self._share(whole, tiles, shared, serial) if shared else self._follow(whole, tiles, {}, serial)
        self.op.results[0].replace_all_uses_with(result)
        for op in (self.op, *reversed(self.generics)):
            op.erase()
        for view in reversed(list(self.function.regions[0].blocks[0].operations)):
            stale = view.operation
            initial = is_fill(stale) or stale.name == tensor.EmptyOp.OPERATION_NAME
            if initial and all(is_unused(r) for r in stale.results):
                stale.erase()

    def _share(self, whole: Value, tiles: dict[int, int], shared: list[int], serial: list[int]) -> Value:
        """Writes an `scf.forall`, whose tiles threads share, over the classes that walk the written tensor."""
        loop = scf.ForallOp([0] * len(shared), [self._bound(c) for c in shared], [tiles[c] for c in shared], [whole])
        work = sum(work_of(g, self.sizes) for g in self.generics) + math.prod(self.sizes[c] for c in self.loops)
        count_tiles(loop, [(self.sizes[c] + tiles[c] - 1) // tiles[c] for c in shared], work)
        offsets = dict(zip(shared, loop.induction_variables, strict=True))
        (into,) = loop.inner_iter_args
        with ir.InsertionPoint(loop.body):
            tiler = self._tiler(tiles, offsets)
            part = self._follow(tiler.slice(into, self.target), tiles, offsets, serial)
            terminator = scf.InParallelOp()
        with ir.InsertionPoint(terminator.regions[0].blocks[0]):
            tiler.insert(part, into, self.target)
        return loop.results[0]

    def _bound(self, c: int) -> Value | int:
        size = self.sizes[c]
        return self.given[str(size)] if isinstance(size, Size) else size

    def _tiler(self, tiles: dict[int, int], offsets: dict[int, Value]) -> Tiler:
        inside = {c: t for c, t in tiles.items() if c in offsets}
        return Tiler(self.sizes, inside, dict(offsets), extents_of(self.sizes, inside, offsets, self.given))

    def _follow(self, into: Value, tiles: dict[int, int], offsets: dict[int, Value], serial: list[int]) -> Value:
        """Writes sequential loops over the classes of `serial`, nested, with the work of one tile inside."""
        if not serial:
            tiler = self._tiler(tiles, offsets)
            for g in self.generics:
                with g.location:
                    tiler.emit(g)
            return self._points(tiler, into)
        c, *rest = serial
        loop = scf.ForOp(_index(0), self._size(c), _index(tiles[c]), [into])
        with ir.InsertionPoint(loop.body):
            inner = offsets | {c: loop.induction_variable}
            scf.YieldOp([self._follow(loop.inner_iter_args[0], tiles, inner, rest)])
        return loop.results[0]

    def _size(self, c: int) -> Value:
        size = self.sizes[c]
        return self.given[str(size)] if isinstance(size, Size) else _index(size)

    def _points(self, tiler: Tiler, into: Value) -> Value:
        """Writes the elements of a tile."""
        read = list(zip(list(self.op.operands)[:-1], operand_classes(self.op)[:-1], strict=True))
        operands, orders = [tiler.read(v, a) for v, a in read], [tiler.order(v, a) for v, a in read]
        return self._walk(tiler, into, tiler.kept(sorted(CLASSES.of(self.op))), {}, {}, operands, orders)

    def _walk(
        self,
        tiler: Tiler,
        into: Value,
        left: Sequence[int],
        at: dict[int, Value],
        places: dict[int, Value],
        operands: list[Value],
        orders: list[list[int]],
    ) -> Value:
        """Writes loops over the classes `left`. Each position is computed as soon as the loops that it depends on are
        open."""
        for c, k in self.indexed.items():
            needed = orders[1 + k]
            if c not in places and all(n in at for n in needed):
                index = tensor.extract(operands[1 + k], [at[n] for n in needed])
                places = places | {c: position(self.op, index, self._size(c))}
        if left:
            c, *rest = left
            extent = tiler.extents.get(c)
            loop = scf.ForOp(_index(0), _index(tiler.extent(c)) if extent is None else extent, _index(1), [into])
            with ir.InsertionPoint(loop.body):
                inner = at | {c: loop.induction_variable}
                scf.YieldOp([self._walk(tiler, loop.inner_iter_args[0], rest, inner, places, operands, orders)])
            return loop.results[0]
        value = tensor.extract(operands[0], [at[n] for n in orders[0]])
        where = [places[c] if c in places else at[c] for c in tiler.kept(self.target)]
        current = tensor.extract(into, where)
        return tensor.insert(combined(self.op, current, value), into, where)


def _index(number: int) -> Value:
    return arith.constant(ir.IndexType.get(), number)


@register_pass("tile-scatters")
class TileScatters(Pass):
    """Writes kernels that have scatters as loops."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for function in list(functions(nested)):
                    found = [o.operation for o in function.regions[0].blocks[0].operations if is_scatter(o.operation)]
                    for op in found:
                        _Writer.read(function, op).write()
                        PARALLEL.drop(function)
                        spell_layouts(function)
