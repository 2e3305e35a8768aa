"""Writes attention as a kernel: a function of this one op, on buffers with any strides except along the last dim.

%o, %lse = kernel.attention(%q, %k, %v)   →   host.launch(%q, %k, %v, %o, %lse) {@kernels::@attention}

Sizes and strides that depend on the call are the kernel's parameters p0, p1, …, as in every kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import host as host_ops
from cuesta.dialects.graph_function import set_argument_attributes
from cuesta.dialects.kernel_attention import KernelAttention
from cuesta.dialects.kernel_module import shape_attributes
from cuesta.dialects.types import memref, memref_shape, shape_of, spelled, spelling_of
from cuesta.passes.form_kernels.kernels.kernel_names import KernelNames
from cuesta.passes.form_kernels.kernels.outline import named
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.sizes import Number, Size, symbol

Value: TypeAlias = ir.Value


def launch_attention(where: Assignment, kernels: KernelNames, op: ir.Operation) -> None:
    """Launches the kernel of an attention op; writes the kernel unless one with equal operand types exists."""
    masks = 1 if KernelAttention.masked.of(op) else 0
    operands = list(op.operands)
    buffers = [_dense_rows(where, v) for v in operands[: len(operands) - masks]]
    buffers += [_unstretched(where, v) for v in operands[len(operands) - masks :]]
    traced = KernelAttention.result_strides
    for result, strides in zip(op.results, traced.of(op), strict=True):
        layout = where.with_strides(result, _spelled_rows(result, tuple(strides)))
        where.layouts[result] = layout
        buffers.append(where.view(layout, spelling_of(result)))
    attributes = {name: a for name, a in op.attributes.items() if name != traced.name}
    shapes = [memref_shape(b.type) for b in buffers]
    parameters = list(dict.fromkeys(n for shape in shapes for part in shape for n in part if isinstance(n, Size)))
    own = {size: symbol(f"p{i}") for i, size in enumerate(parameters)}
    shapes = [(tuple(named(own, n) for n in sizes), tuple(named(own, n) for n in strides)) for sizes, strides in shapes]
    kinds = [_kind(b.type, *shape) for b, shape in zip(buffers, shapes, strict=True)]
    key = (op.name, *map(str, kinds), *(f"{name} = {a}" for name, a in sorted(attributes.items())))
    name = op.name.removeprefix("kernel.")
    if key not in kernels.names:
        called = kernels.add(key, [name])
        with ir.InsertionPoint(kernels.block):
            function = func.FuncOp(called, (kinds + [ir.IndexType.get()] * len(parameters), []))
        with ir.InsertionPoint(function.add_entry_block()):
            ir.Operation.create(op.name, operands=list(function.arguments)[: len(kinds)], attributes=attributes)
            func.ReturnOp([])
        if parameters:
            bound = [shape_attributes(*shape) for shape in shapes]
            set_argument_attributes(function, bound + [{}] * len(parameters))
    host_ops.Launch.build(
        buffers,
        kernel=kernels.names[key],
        outputs=len(op.results),
        ops=[name],
        parameters=parameters or None,
    )


def _kind(buffer: ir.Type, sizes: Sequence[Number], strides: Sequence[Number]) -> ir.Type:
    """The type of a buffer, its sizes and strides in the kernel's parameters."""
    kind = ir.MemRefType(buffer)
    return buffer if kind.memory_space is None else memref(sizes, strides, spelled(kind.element_type))


def _dense_rows(where: Assignment, value: Value) -> Value:
    """The buffer of a value, copied if its last dim is not contiguous."""
    layout = where.layout_of(value)
    strides = _spelled_rows(value, layout.strides)
    if strides[-1] != 1 and len(strides) == 4:
        layout = where.copy(value, layout, where.row_major(value))
        strides = layout.strides
    return where.view(replace(layout, strides=strides), spelling_of(value))


def _spelled_rows(value: Value, strides: tuple[Number, ...]) -> tuple[Number, ...]:
    """The strides, with 1 for a last dim of size 1: vectors are loaded along the last dim."""
    return (*strides[:-1], 1) if shape_of(value)[-1] == 1 else strides


def _unstretched(where: Assignment, value: Value) -> Value:
    """The buffer of a mask as four dims, with size 1 where the mask was broadcast."""
    layout = where.layout_of(value)
    missing = 4 - len(layout.sizes)
    dims = [(1, 1)] * missing + [
        (1, 1) if n == 1 or s == 0 else (n, s) for n, s in zip(layout.sizes, layout.strides, strict=True)
    ]
    sizes, strides = zip(*dims, strict=True)
    return where.view(replace(layout, sizes=sizes, strides=strides), spelling_of(value))
