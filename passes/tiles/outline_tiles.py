"""Turns each kernel's forall into a function over a range of tiles, so that any number of threads can share the tiles.

    func @k(%x, %o) {                        func @k__tiles(%x, %o, %lo: index, %hi: index) {
      scf.forall (%i) = (0) to (256)    →      scf.for %i = %lo to %hi { … }
        step (1) { … }                       }
      linalg.generic … // the tail           func @k__tail(%x, %o) { linalg.generic … }
    }

The functions keep `cuesta.tiles` (how many) and `cuesta.work` (scalar operations in all of them), from
which their driver decides how many threads are worth waking.
"""

from __future__ import annotations

import math

from cuesta._mlir import arith, func, ir, memref, scf
from cuesta.dialects import kernel_fields, walk
from cuesta.dialects.graph_function import argument_attributes, set_argument_attributes
from cuesta.dialects.index_arithmetic import index_of
from cuesta.dialects.kernel_fields import PARALLEL, SHAPE, SIZES, TILES_ALONG, WORK
from cuesta.dialects.kernel_module import LOOP_ANNOTATION, TAIL, TILES, kernel_modules, parameters
from cuesta.dialects.named_linalg import is_index
from cuesta.errors import VerifyError
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.tiles.bound_shapes import bind_shapes
from cuesta.sizes import Number

#: If loops inside a tile are so short that LLVM unrolls them, LLVM would vectorise across tiles, whose elements are not
#: contiguous: a sum along rows of 16 floats gathered each element (3.4 times as long).
_ONE_BY_ONE = "#llvm.loop_annotation<vectorize = <disable = true>>"


def _outline(function: func.FuncOp) -> None:
    name = function.name.value
    entry = function.regions[0].blocks[0]
    for value in list(entry.operations)[-1].operands:
        if not isinstance(value.owner, ir.Block):
            raise VerifyError(
                f"kernel {name} must return its destinations, not memory of its own, at {function.location}"
            )
    loops = [o for o in entry.operations if isinstance(o, scf.ForallOp)]
    if not loops:
        _finish(function, name + TAIL)
        return
    (loop,) = loops
    after = False
    tail = []
    for op in entry.operations:
        if after and not isinstance(op, func.ReturnOp | memref.DeallocOp):
            tail.append(op.operation)
        after = after or op == loop
    if tail:
        with ir.InsertionPoint(function):
            _keep_tail(function.operation.clone(), name)
        for op in reversed(tail):
            op.erase()
    _range(function, loop)
    _finish(function, name + TILES)


def _keep_tail(function: func.FuncOp, name: str) -> None:
    for op in list(function.regions[0].blocks[0].operations):
        if isinstance(op, scf.ForallOp):
            op.operation.erase()
    _finish(function, name + TAIL)


def _range(function: func.FuncOp, loop: scf.ForallOp) -> None:
    entry = function.regions[0].blocks[0]
    index = ir.IndexType.get()
    low, high = (entry.add_argument(index, function.location) for _ in range(2))
    uppers, steps = list(loop.staticUpperBound), list(loop.staticStep)
    counts: list[Number] = [-(-u // s) for u, s in zip(uppers, steps, strict=True)]
    if TILES_ALONG.is_on(loop):
        counts = _counts_of(loop, len(steps))
    given = parameters(function)
    with ir.InsertionPoint(loop), loop.location:
        one = arith.ConstantOp(index, 1).result
        new = scf.ForOp(low, high, one)
        if not _finds_positions(loop):
            new.operation.attributes[LOOP_ANNOTATION] = ir.Attribute.parse(_ONE_BY_ONE)
    with ir.InsertionPoint(new.body), loop.location:
        offsets = _delinearise(new.induction_variable, counts, steps, given)
        end = scf.YieldOp([])
    for old, value in zip(loop.induction_variables, offsets, strict=True):
        old.replace_all_uses_with(value)
    for op in list(loop.body.operations)[:-1]:
        op.operation.move_before(end.operation)
    kernel_fields.TILES.put(function, math.prod(counts))
    WORK.put(function, WORK.of(loop))
    loop.operation.erase()


def _counts_of(loop: scf.ForallOp, rank: int) -> list[Number]:
    """The number of tiles along each of a loop's dims, if that depends on the call. Upstream's canonicalisation drops
    dims that have one tile in every call (attention of one head), but `cuesta.tiles` still counts them."""
    tiles = TILES_ALONG.of(loop)
    counts = tiles if len(tiles) == rank else [count for count in tiles if count != 1]
    if len(counts) != rank:
        name = TILES_ALONG.name
        raise VerifyError(f"{name} = {tiles} needs {rank} entries, as the loop has dims, at {loop.location}")
    return counts


def _finds_positions(loop: scf.ForallOp) -> bool:
    """Whether tiles reduce values computed from loop indices. For rows of up to eight elements LLVM then does well to
    vectorise across rows (argmax of rows of 8 takes 0.1 of the time)."""
    reductions = (op for op in walk(loop.operation) if "reduction" in str(op.attributes.get("iterator_types")))
    return any(is_index(inner) for op in reductions for inner in walk(op))


def _delinearise(tile: ir.Value, counts: list[Number], steps: list[int], given: dict[str, ir.Value]) -> list[ir.Value]:
    """The offset along each loop of tile number `tile`, the last loop fastest."""

    def const(n: Number) -> ir.Value:
        return index_of(n, given)

    offsets = []
    for i, (count, step) in enumerate(zip(counts, steps, strict=True)):
        inner = math.prod(counts[i + 1 :])
        position = arith.divui(tile, const(inner)) if inner != 1 else tile
        if i:
            position = arith.remui(position, const(count))
        offsets.append(arith.muli(position, const(step)) if step != 1 else position)
    return offsets


def _finish(function: func.FuncOp, name: str) -> None:
    """Drops the results (they are arguments), renames the function, and marks its arguments as not aliasing."""
    entry = function.regions[0].blocks[0]
    terminator = list(entry.operations)[-1]
    with ir.InsertionPoint(terminator), function.location:
        func.ReturnOp([])
    terminator.operation.erase()
    bind_shapes(entry, map(SHAPE.find_in, argument_attributes(function)), parameters(function))
    arguments = [a.type for a in entry.arguments]
    function.function_type = ir.TypeAttr.get(ir.FunctionType.get(arguments, []))
    function.res_attrs = None
    # A launch writes fresh memory: its outputs overlap neither one another nor its inputs.
    noalias = {"llvm.noalias": ir.UnitAttr.get()}
    set_argument_attributes(function, [noalias if isinstance(t, ir.MemRefType) else {} for t in arguments])
    for stale in (PARALLEL, SIZES):
        stale.drop(function)
    function.sym_name = ir.StringAttr.get(name)


@register_pass("outline-tiles")
class OutlineTiles(Pass):
    """Turns foralls into functions over ranges of tiles."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for function in list(functions(nested)):
                    _outline(function)
