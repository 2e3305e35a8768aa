"""Lowers matrix products of f32 on a CPU: packs a panel of the right factor, and keeps blocks of sums in registers.

linalg.generic {mulf, addf}                     %panel = memref.alloca() : memref<768x48xf32>
  ins(%a : memref<256x768xf32>,                 %panel[k, n] = %b[n, k]                16 x 16 at a time, in registers
      %b : memref<48x768xf32>)             →    scf.for %i = 0 to 256 step 8 {
  outs(%c : memref<256x48xf32>)                   %sums = load %c                      8 x 3 vectors
  {cuesta.product_tile = "256x48x768 by 8x48"}        scf.for %k { 24 times vector.fma }
                                                  store %sums, %c }

8 x 48 sums take 24 of 32 registers, and each step has 24 FMAs for 11 loads. While a panel is multiplied, the next panel
is prefetched, because weights are not in a cache. If the panel does not fit into L1, its own next rows are prefetched
too. The sums of the blocks of K are added up, which is as exact as MKL's, which does the same.
Remainders of a tile's rows and columns are computed in full blocks with masks. If the sums begin with zeros, these are
not written: the first block of K stores its sums instead of adding them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref
from cuesta.dialects import walk
from cuesta.dialects.affine_maps import operand_dims, projection
from cuesta.dialects.kernel_fields import CLASSES
from cuesta.dialects.kernel_module import body_ops, kernel_modules
from cuesta.dialects.named_linalg import is_fill, is_generic
from cuesta.dialects.product import TILE, Panels, roles_of
from cuesta.dialects.types import memref_shape
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL, constant_of
from cuesta.lowering.linalg_to_loops.panel import Matrix, Panel, Product, rows_in_memory, vectors_of
from cuesta.lowering.linalg_to_loops.vector_loops import LANES, Extent, blocks, equal_blocks, scratch
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: Ops that may stand between the fill with zeros and the product, because they do not access the sums.
_BETWEEN = {
    op.OPERATION_NAME
    for op in (memref.SubViewOp, memref.AllocaOp, linalg.FillOp, arith.ConstantOp, arith.AddIOp, arith.MulIOp)
}


@register_pass("multiply-panels")
class MultiplyPanels(Pass):
    """Lowers matrix products of tiles to loops around register blocks."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        _multiply(function)


def _multiply(function: func.FuncOp) -> None:
    generics = [op for op in walk(function.operation) if is_generic(op)]
    for op in generics:
        if TILE.is_on(op) and _is_plain(op) and not Panels.parse(TILE.of(op)).along_k:
            fill = _zeros_before(op)
            with ir.InsertionPoint(op), op.location:
                _write(_product_of(op, function.regions[0].blocks[0], fill is not None))
            op.erase()
            if fill is not None:
                fill.erase()


def _is_plain(op: ir.Operation) -> bool:
    """Whether a generic is a plain matrix product: factors in f32, or in f16 that it widens to f32, and sums in f32."""
    *factors, result = (str(ir.MemRefType(v.type).element_type) for v in op.operands)
    names = [inner.name for inner in body_ops(op)]
    matrices = all(len(dims) == 2 for dims in operand_dims(op))
    steps = (*[arith.ExtFOp] * factors.count("f16"), arith.MulFOp, arith.AddFOp, linalg.YieldOp)
    return (
        {*factors} <= {"f32", "f16"}
        and result == "f32"
        and names == [step.OPERATION_NAME for step in steps]
        and matrices
    )


def _zeros_before(op: ir.Operation) -> ir.Operation | None:
    """The fill of the result with zeros before `op`, if there is one. It can go if the first sums are stored, not
    added."""
    ops = [other.operation for other in op.operation.block.operations]
    for other in reversed(ops[: ops.index(op.operation)]):
        if is_fill(other) and other.operands[1] == op.operands[-1]:
            return other if constant_of(other.operands[0]) == 0 else None
        if other.name not in _BETWEEN:
            return None
    return None


def _product_of(op: ir.Operation, entry: ir.Block, fresh: bool) -> Product:
    """The product that a generic computes. The memory for a packed panel is allocated at the beginning of `entry`, once
    for the whole call."""
    at_m, at_n, at_k = loops_of(op)
    tile = Panels.parse(TILE.of(op))
    maps = operand_dims(op)
    loops = ((at_m, at_k), (at_k, at_n), (at_m, at_n))
    a, b, c = (
        Matrix(buffer, (dims.index(first), dims.index(second)))
        for buffer, dims, (first, second) in zip(op.operands, maps, loops, strict=True)
    )
    (m, k), (_, n) = a.sizes, b.sizes
    memory = None
    if not _is_packed(b, tile):
        columns = tile.columns if not isinstance(n, int) else min(tile.columns, n)
        with ir.InsertionPoint.at_block_begin(entry):
            depth = min(tile.k, k) if isinstance(k, int) else tile.k
            memory = scratch([rows_in_memory(depth, columns), vectors_of(columns) * LANES])
    return Product(a, b, c, m, n, k, tile, memory, fresh)


def loops_of(op: ir.Operation) -> list[int]:
    """The loops over M, N and K, in this order. `cuesta.classes`, if the op has it, maps roles to loops."""
    roles, classes = roles_of(op), CLASSES.find(op)
    return list(roles) if classes is None else [classes.index(c) for c in roles]


def _write(product: Product) -> None:
    """Writes a product's loops at the current insertion point.

    All panels are multiplied over one block of K before the next block, so that the part of the left factor that they
    read stays in L2. If K is symbolic, the first block is peeled: it stores sums, where later blocks add.
    """
    if not product.c.runs(1):
        beside = Matrix(_own_sums(product), (0, 1))
        if not product.fresh:
            _copy(product.c, beside)
        _write(replace(product, c=beside))
        _copy(beside, product.c)
        return

    def panels(product: Product, k: Value, depth: Extent, is_first: bool) -> None:
        blocks(
            product.n,
            product.tile.columns,
            lambda n, width, left: Panel(product, k, depth, n, width, left, is_first).write(),
        )

    if isinstance(product.k, int):
        blocks(product.k, product.tile.k, lambda k, depth, _: panels(product, k, depth, depth == product.k))
        return
    later = replace(product, fresh=False)
    equal_blocks(
        product.k,
        product.tile.k,
        LANES,
        lambda k, depth, is_first: panels(product if is_first else later, k, depth, is_first),
    )


def _own_sums(product: Product) -> Value:
    """Allocates scratch memory for a tile's sums [m, n]."""
    sizes, most = (product.m, product.n), (product.tile.m, product.tile.n)
    whole = scratch([n if isinstance(n, int) else limit for n, limit in zip(sizes, most, strict=True)])
    if all(isinstance(n, int) for n in sizes):
        return whole
    shape = [n if isinstance(n, int) else ir.ShapedType.get_dynamic_size() for n in sizes]
    given = [n for n in sizes if not isinstance(n, int)]
    kind = ir.MemRefType.get(shape, ir.F32Type.get(), ir.StridedLayoutAttr.get(0, [whole.type.shape[1], 1]))
    return memref.SubViewOp(kind, whole, [], given, [], [0, 0], shape, [1, 1]).result


def _copy(source: Matrix, target: Matrix) -> None:
    """Copies a matrix into another, whose dims may be in another order."""
    maps = ir.ArrayAttr.get([projection(2, [x.order.index(d) for d in range(2)]) for x in (source, target)])
    op = linalg.GenericOp([], [source.buffer], [target.buffer], maps, ITERATOR_TYPES.write([PARALLEL] * 2))
    block = op.regions[0].blocks.append(ir.F32Type.get(), ir.F32Type.get())
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])


def _is_packed(b: Matrix, tile: Panels) -> bool:
    """Whether a right factor is already one packed panel, as `freezing` lays panels out: contiguous rows of full
    vectors."""
    _, n = b.sizes
    _, strides = memref_shape(b.buffer.type)
    return b.runs(1) and n == tile.columns == strides[0] and n % LANES == 0
