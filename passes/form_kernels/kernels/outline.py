"""Writes a kernel as a function of linalg on tensors, destinations passed in.

    func.func @gelu(%x: tensor<256x3072xf32>, %out: tensor<256x3072xf32>) -> tensor<256x3072xf32>
        attributes {cuesta.parallel = [0, 1], cuesta.sizes = [256, 3072]}

Each generic carries `cuesta.classes`, the class that each of its loops walks; classes are numbered in
memory order, slowest first.
"""

from __future__ import annotations

from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, tensor
from cuesta.dialects import types
from cuesta.dialects.affine_maps import projection
from cuesta.dialects.clones import clone_op
from cuesta.dialects.cuesta.shape import SizeOp
from cuesta.dialects.graph_function import set_argument_attributes
from cuesta.dialects.kernel_fields import (
    AFTER_TILES,
    BUFFER_LAYOUT,
    CLASSES,
    PARALLEL,
    SIZES,
    WINDOW_PARTS,
    WRITABLE,
    put_windowed_dims,
)
from cuesta.dialects.kernel_module import shape_attributes
from cuesta.dialects.kernel_scatter import KernelScatter, meaning_of
from cuesta.dialects.named_linalg import fill, is_index
from cuesta.dialects.product import FACTOR, PRECISION, ROLES, TILE
from cuesta.dialects.types import row_major, size_of, strided
from cuesta.dialects.upstream_fields import INDEX_DIM
from cuesta.passes.form_kernels.kernels.kernel import Kernel, KernelNode, Operand
from cuesta.sizes import Number, Size, symbol

Value: TypeAlias = ir.Value


def emit_kernel(kernel: Kernel, name: str) -> None:
    """Builds the function at the current insertion point."""
    number = {c: i for i, c in enumerate(kernel.order)}
    arguments = [*kernel.given, *kernel.gathered, *kernel.outputs]
    argument_types = [_tensor_type(o) for o in arguments]
    results = [_tensor_type(o) for o in kernel.outputs]
    parameters = {size: symbol(f"p{i}") for i, size in enumerate(kernel.parameters)}
    function = func.FuncOp(name, (argument_types + [ir.IndexType.get()] * len(parameters), results))
    entry = function.add_entry_block()
    values = {id(o): a for o, a in zip(arguments, entry.arguments, strict=False)}
    values |= {shared: values[id(first)] for shared, first in kernel.shared.items()}
    given = dict(zip(parameters, list(entry.arguments)[len(arguments) :], strict=True))
    gathered = {o.value: (o, values[id(o)]) for o in kernel.gathered}
    with ir.InsertionPoint(entry):
        for kn in kernel.nodes:
            with kn.node.op.location:
                _emit_node(kernel, kn, number, values, gathered, given)
        func.ReturnOp([values[id(o)] for o in kernel.outputs])
    PARALLEL.put(function, [number[c] for c in kernel.parallel])
    SIZES.put(function, [named(parameters, kernel.sizes[c]) for c in kernel.order])
    of_tensors = [_argument_attributes(o, o in kernel.outputs, parameters) for o in arguments]
    set_argument_attributes(function, of_tensors + [{}] * len(parameters))


def named(parameters: dict[Size, Size], number: Number) -> Number:
    """A number in terms of the kernel's parameters."""
    return parameters[number] if isinstance(number, Size) else number


def _tensor_type(operand: Operand) -> ir.Type:
    return types.unspelled_tensor(operand.sizes, operand.spelling)


def _argument_attributes(operand: Operand, written: bool, parameters: dict[Size, Size]) -> dict[str, ir.Attribute]:
    sizes = [named(parameters, n) for n in operand.sizes]
    strides = row_major(sizes) if operand.contiguous else [named(parameters, n) for n in operand.strides]
    attributes = shape_attributes(sizes, strides)
    if not operand.contiguous:
        attributes |= BUFFER_LAYOUT.entry(strided(operand.strides))
    if written:
        attributes |= WRITABLE.entry(ir.BoolAttr.get(True))
    return attributes


def _emit_node(
    kernel: Kernel,
    kn: KernelNode,
    number: dict[int, int],
    values: dict[int, Value],
    gathered: dict[Value, tuple[Operand, Value]],
    given: dict[Size, Value],
) -> None:
    loops = kn.loops
    position = {c: i for i, c in enumerate(loops)}
    if kn.node.base is not None:
        _emit_scatter(kn, position, number, values)
        return
    inits = []
    for result, initial in zip(kn.results, kn.node.initial_numbers, strict=True):
        init = values.get(id(result))
        if init is None:
            sizes = [given[n] if isinstance(n, Size) else n for n in result.sizes]
            init = tensor.EmptyOp(sizes, types.element(result.spelling)).result
        if initial is not None:
            attribute = ir.Attribute.parse(initial)
            init = fill(arith.ConstantOp(attribute.type, attribute).result, init)
        inits.append(init)
    maps = [projection(len(loops), [position[c] for c in o.classes]) for o in (*kn.reads, *kn.results)]
    loop_of = kernel.loop_of[kn.node.index]
    kinds = ["parallel" if kn.node.parallel[loop_of[c]] else "reduction" for c in loops]
    op = linalg.GenericOp(
        [v.type for v in inits],
        [values[id(o)] for o in kn.reads],
        inits,
        ir.ArrayAttr.get(maps),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{k}>") for k in kinds]),
    )
    CLASSES.put(op, [number[c] for c in loops])
    if kn.tail:
        AFTER_TILES.mark(op)
    if kn.node.product is not None and kn.node.tile is not None:
        class_of = {loop_of[c]: c for c in loops}
        ROLES.put(op, [number[class_of[d]] for d in kn.node.product])
        TILE.put(op, kn.node.tile)
        precision = PRECISION.find(kn.node.op)
        if precision is not None:
            PRECISION.put(op, precision)
        if kn.node.factor is not None:
            FACTOR.put(op, kn.node.factor)
    if kn.node.windows:
        class_of = {loop_of[c]: number[c] for c in loops} | {-1: -1}
        put_windowed_dims(op, [d._replace(loop=class_of[d.loop], place=class_of[d.place]) for d in kn.node.windows])
        if kn.node.window_parts is not None:
            WINDOW_PARTS.put(op, [class_of[loop] for loop in kn.node.window_parts])
    old = kn.node.op.regions[0].blocks[0]
    block = op.regions[0].blocks.append(*[a.type for a in old.arguments])
    mapping = dict(zip(old.arguments, block.arguments, strict=True))
    new_loop = {loop_of[c]: i for i, c in enumerate(loops)}
    with ir.InsertionPoint(block):
        for inner in kn.node.body:
            _clone(inner, mapping, new_loop, gathered, given)
    for o, value in zip(kn.results, op.results, strict=True):
        values[id(o)] = value


def _emit_scatter(kn: KernelNode, position: dict[int, int], number: dict[int, int], values: dict[int, Value]) -> None:
    """Emits a scatter into the kernel's destination, whose dims are already in memory order."""
    (result,) = kn.results
    base = values[id(result)]
    op = KernelScatter.build(
        [*(values[id(o)] for o in kn.reads), base],
        [base.type],
        meaning_of(kn.node.op),
        indexing_maps=[projection(len(kn.loops), [position[c] for c in o.classes]).value for o in kn.reads],
        walks=[position.get(c, c) for c in result.classes],
    )
    CLASSES.put(op, [number[c] for c in kn.loops])
    values[id(result)] = op.results[0]


def _clone(
    op: ir.Operation,
    mapping: dict[Value, Value],
    new_loop: dict[int, int],
    gathered: dict[Value, tuple[Operand, Value]],
    given: dict[Size, Value],
) -> None:
    if SizeOp.matches(op):
        mapping[op.results[0]] = given[size_of(op)]
        return
    if is_index(op):
        mapping[op.results[0]] = linalg.IndexOp(new_loop[INDEX_DIM.of(op)]).result
        return
    if op.name == tensor.ExtractOp.OPERATION_NAME:
        operand, source = gathered[op.operands[0]]
        assert operand.positions is not None
        indices: list[Value | None] = [None] * len(operand.sizes)
        for index, place in zip(list(op.operands)[1:], operand.positions, strict=True):
            if place is not None:
                indices[place] = mapping[index]
        mapping[op.results[0]] = tensor.ExtractOp(source, indices).result
        return
    clone_op(op, mapping)
