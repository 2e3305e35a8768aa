"""Fuses transposes into the pointwise op that reads them: transposes 16 x 16 elements in registers and computes there.

linalg.transpose ins(%x) outs(%tile)          scf.for %i { scf.for %j {
linalg.generic {addf}                    →      16 times vector.load %x, 64 times vector.shuffle
  ins(%y, %tile) outs(%z)                       16 times vector.load %y, arith.addf
                                                16 times vector.store %z } }

A separate tile would be written and read once more while memory idles: adding a transposed 1000x1000 took 1.5 times as
long. The pass applies if few ops follow, each of which works the same on vectors.

All of a square is computed before any of it is stored. Addresses of rows a power of two apart end in the same bits. By
these bits a processor decides whether a load may depend on a recent store. Row by row, each load of %y waited for the
store before it, and 1024x1024 took up to 1.7 times as long (an EPYC of Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, linalg, math, memref, vector
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.kernel_module import body_ops, kernel_modules
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import index_value
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PERMUTATION, REDUCTION
from cuesta.lowering.linalg_to_loops.transpose_tiles import Squares, fits, lanes_of, put
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.lowering.linalg_to_loops.views import memory_of
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: The most ops of the consumer: each is repeated for every row of a square.
_MOST = 12
#: Ops that work the same on vectors, and that no later pass expects to be scalar.
_FLOATS = "addf subf mulf divf negf maximumf minimumf maxnumf minnumf cmpf"
_INTEGERS = "addi subi muli andi ori xori shli shrui shrsi cmpi minsi maxsi minui maxui"
_OTHERS = "select constant extf truncf extsi extui trunci sitofp uitofp bitcast"
_SAME = {f"arith.{name}" for name in f"{_FLOATS} {_INTEGERS} {_OTHERS}".split()} | {
    op.OPERATION_NAME for op in (math.AbsFOp, math.SqrtOp, math.FmaOp)
}
#: Ops that may stand between transpose and consumer, because they do not change the memory that either uses.
_LEAVE = {op.OPERATION_NAME for op in (memref.SubViewOp, memref.AllocaOp, memref.DimOp, linalg.TransposeOp)}


@register_pass("transposed-operands")
class TransposedOperands(Pass):
    """Fuses transposes and the pointwise op that reads them into one loop around squares in registers."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for op in [o for o in walk(nested.operation) if is_generic(o)]:
                    found = _Consumer.of(op)
                    if found is not None:
                        with ir.InsertionPoint(op), op.location:
                            ops = [*found.transposes.values(), op]
                            found.squares.replace(ops, found.compute)


@dataclass(frozen=True)
class _Consumer:
    """A pointwise generic, and the transposes whose results only it reads, by operand number."""

    op: ir.Operation
    transposes: dict[int, ir.Operation]
    squares: Squares

    @staticmethod
    def of(op: ir.Operation) -> _Consumer | None:
        """The consumer for a generic; None if squares in registers do not apply."""
        if REDUCTION in ITERATOR_TYPES.of(op) or op.results:
            return None
        found = {i: t for i, v in enumerate(op.operands) if (t := _transpose_of(v, op)) is not None}
        if not found or not _is_short(op, len(_outputs(op))):
            return None
        orders = {tuple(PERMUTATION.of(t)) for t in found.values()}
        shapes = {tuple(op.operands[i].type.shape) for i in found}
        lanes = {lanes_of(t.operands[0]) for t in found.values()}
        if len(orders) != 1 or len(shapes) != 1 or len(lanes) != 1:
            return None
        permutation = list(orders.pop())
        whole = op.operands[next(iter(found))]
        last = len(permutation) - 1
        squares = Squares(whole, (permutation.index(last), last), lanes.pop())
        consumer = _Consumer(op, found, squares)
        return consumer if consumer._is_possible() else None

    def _is_possible(self) -> bool:
        """Whether vectors are contiguous in memory, a square fits into the tile, and overlapping squares do not read
        their own results."""
        loops = tuple(range(len(ITERATOR_TYPES.of(self.op))))
        maps = operand_dims(self.op)
        sizes = [self.squares.whole.type.shape[d] for d in self.squares.across]
        lanes = self.squares.lanes
        dynamic = ir.ShapedType.get_dynamic_size()
        if any(n != dynamic and n < lanes for n in sizes) or len(set(self.squares.across)) != 2:
            return False
        if any(maps[i] != loops or not fits(t.operands[0]) for i, t in self.transposes.items()):
            return False
        others = [
            (v, dims)
            for i, (v, dims) in enumerate(zip(self.op.operands, maps, strict=True))
            if i not in self.transposes
        ]
        if not all(_runs_along(v, dims, loops[-1]) for v, dims in others):
            return False
        if any(dims != loops for dims in maps[len(maps) - len(_outputs(self.op)) :]):
            return False
        written = {memory_of(v) for v in _outputs(self.op)}
        if written & {memory_of(t.operands[0]) for t in self.transposes.values()}:
            return False
        # The last squares overlap the squares before them, unless sizes are multiples of a vector.
        again = written & {
            memory_of(v) for v in list(self.op.operands)[: -len(written)] if isinstance(v.type, ir.MemRefType)
        }
        return not again or all(n != dynamic and n % lanes == 0 for n in sizes)

    def compute(self, place: list[Value], rows: int, columns: int) -> None:
        """Computes the square that begins at `place`. Each of its rows in the result is a vector."""
        j, _ = self.squares.across
        outputs = _outputs(self.op)
        written = list(zip(outputs, operand_dims(self.op)[-len(outputs) :], strict=True))
        read = {i: self._square(t, place, rows) for i, t in self.transposes.items()}
        places = [put(place, {j: arith.addi(place[j], index_value(row))}) for row in range(columns)]
        results = [self._row(at, {i: square[row] for i, square in read.items()}) for row, at in enumerate(places)]
        for at, values in zip(places, results, strict=True):
            for value, (output, dims) in zip(values, written, strict=True):
                vector.store(value, output, [at[d] for d in dims])

    def _square(self, transpose: ir.Operation, place: list[Value], rows: int) -> list[Value]:
        _, i = self.squares.across
        source = transpose.operands[0]
        order = PERMUTATION.of(transpose)
        lines = []
        for r in range(rows):
            there = put(place, {i: arith.addi(place[i], index_value(r))})
            at = [there[order.index(d)] for d in range(len(order))]
            lines.append(vector.load(self._vector(ir.MemRefType(source.type).element_type), source, at))
        return transposed(lines)

    def _row(self, at: list[Value], known: dict[int, Value]) -> list[Value]:
        """Computes the generic's body on vectors. `known` has the vectors of transposed operands by number."""
        block = self.op.regions[0].blocks[0]
        outputs, maps = _outputs(self.op), operand_dims(self.op)
        values: dict[Value, Value] = {}
        for i, (v, dims) in enumerate(zip(list(self.op.operands)[: -len(outputs)], maps, strict=False)):
            values[block.arguments[i]] = known[i] if i in known else self._load(v, [at[d] for d in dims], dims)
        *body, end = body_ops(self.op)
        for inner in body:
            self._copy(inner, values)
        return [self._of(value, values) for value in end.operands]

    def _copy(self, op: ir.Operation, values: dict[Value, Value]) -> None:
        """Copies an op of the body, with vectors in place of scalars."""
        if op.name == arith.ConstantOp.OPERATION_NAME:
            values[op.results[0]] = vector.broadcast(self._vector(op.results[0].type), op.clone().operation.results[0])
            return
        copy = ir.Operation.create(
            op.name,
            results=[self._vector(r.type) for r in op.results],
            operands=[self._of(v, values) for v in op.operands],
            attributes=dict(op.attributes.items()),
        )
        values.update(zip(op.results, copy.results, strict=True))

    def _of(self, value: Value, values: dict[Value, Value]) -> Value:
        """The vector for a scalar of the body. A scalar from outside the body is broadcast."""
        return values[value] if value in values else vector.broadcast(self._vector(value.type), value)

    def _load(self, source: Value, at: list[Value], dims: Sequence[int]) -> Value:
        if not isinstance(source.type, ir.MemRefType):
            return vector.broadcast(self._vector(source.type), source)
        kind = self._vector(ir.MemRefType(source.type).element_type)
        if self.squares.across[1] in dims:
            return vector.load(kind, source, at)
        return vector.broadcast(kind, memref.load(source, at))

    def _vector(self, element: ir.Type) -> ir.Type:
        return ir.VectorType.get([self.squares.lanes], element)


def _outputs(op: ir.Operation) -> list[Value]:
    count = len(op.regions[0].blocks[0].operations[-1].operands)
    return list(op.operands)[-count:]


def _is_short(op: ir.Operation, outputs: int) -> bool:
    """Whether a body has few ops, all of which work the same on vectors, and never reads the outputs' old values."""
    *ops, _ = body_ops(op)
    block = op.regions[0].blocks[0]
    kinds = {v.type for inner in ops for v in (*inner.operands, *inner.results)}
    if len(ops) > _MOST or any(inner.name not in _SAME for inner in ops) or any(_is_index(kind) for kind in kinds):
        return False
    return not any(True for a in list(block.arguments)[-outputs:] for _ in a.uses)


def _is_index(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IndexType)


def _runs_along(value: Value, dims: Sequence[int], loop: int) -> bool:
    """Whether a buffer's elements along a loop are contiguous in memory, or the loop does not walk the buffer."""
    if not isinstance(value.type, ir.MemRefType) or loop not in dims:
        return True
    return dims[-1] == loop and dims.count(loop) == 1 and fits(value)


def _transpose_of(value: Value, reader: ir.Operation) -> ir.Operation | None:
    """The transpose that writes `value`, a tile on the stack, if it is in the block of `reader` and only `reader` reads
    the tile."""
    if not isinstance(value.type, ir.MemRefType) or isinstance(value.owner, ir.Block) or not fits(value):
        return None
    memory = memory_of(value)
    if maker(memory, memref.AllocaOp) is None:
        return None
    users = list(_users(memory))
    writers = [op for op in users if op != reader]
    if len(writers) != 1 or writers[0].name != linalg.TransposeOp.OPERATION_NAME or writers[0].operands[1] != value:
        return None
    if list(reader.operands).count(value) != 1 or writers[0].operation.block != reader.operation.block:
        return None
    ops = [op.operation for op in reader.operation.block.operations]
    between = ops[ops.index(writers[0]) : ops.index(reader)]
    is_quiet = all(op.name in _LEAVE or op.name.startswith("arith.") for op in between)
    return writers[0] if is_quiet and ops.index(writers[0]) < ops.index(reader) else None


def _users(memory: Value) -> Iterator[ir.Operation]:
    """The ops that use a buffer or a subview of it."""
    for use in memory.uses:
        op = use.owner.operation
        if op.name == memref.SubViewOp.OPERATION_NAME:
            yield from _users(op.results[0])
        else:
            yield op
