"""Attention as a kernel: a function of its one op, on buffers with any strides but along the last dim.

%o, %lse = kernel.attention(%q, %k, %v)   →   host.launch(%q, %k, %v, %o, %lse) {@kernels::@attention}
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import host as host_ops
from cuesta.dialects.cuesta.dialect import int_attr, numbers
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.sizes import Number

if TYPE_CHECKING:
    from cuesta.passes.form_kernels.host import Host

Value: TypeAlias = ir.Value


def launch_attention(host: Host, op: ir.Operation) -> None:
    """Launches the kernel of an op of the linalg level; it is written where no other has its operands' places."""
    masks = 1 if op.attributes["masked"].value else 0
    operands = list(op.operands)
    buffers = [_dense_rows(host, v) for v in operands[: len(operands) - masks]]
    buffers += [_unstretched(host, v) for v in operands[len(operands) - masks :]]
    for result, strides in zip(op.results, op.attributes["result_strides"], strict=True):
        layout = host.with_strides(result, _spelled_rows(result, tuple(numbers(strides))))
        host.layouts[result] = layout
        buffers.append(host.view(layout, spelling_of(result)))
    attributes = {name: a for name, a in op.attributes.items() if name != "result_strides"}
    kinds = [b.type for b in buffers]
    key = (op.name, *map(str, kinds), *(f"{name} = {a}" for name, a in sorted(attributes.items())))
    name = op.name.removeprefix("kernel.")
    if key not in host.names:
        host.names[key] = host.kernel_name([name])
        with ir.InsertionPoint(host.kernels):
            function = func.FuncOp(host.names[key], (kinds, []))
        with ir.InsertionPoint(function.add_entry_block()):
            ir.Operation.create(op.name, operands=list(function.arguments), attributes=attributes)
            func.ReturnOp([])
    host_ops.LAUNCH(
        buffers,
        [],
        kernel=ir.SymbolRefAttr.get(["kernels", host.names[key]]),
        outputs=int_attr(len(op.results)),
        ops=ir.ArrayAttr.get([ir.StringAttr.get(name)]),
    )


def _dense_rows(host: Host, value: Value) -> Value:
    """Where a value lies, copied where elements along its last dim do not lie together."""
    layout = host.layout_of(value)
    strides = _spelled_rows(value, layout.strides)
    if strides[-1] != 1 and len(strides) == 4:
        layout = host.copy(value, layout, host.row_major(value))
        strides = layout.strides
    return host.view(replace(layout, strides=strides), spelling_of(value))


def _spelled_rows(value: Value, strides: tuple[Number, ...]) -> tuple[Number, ...]:
    """The strides with 1 for a last dim of size 1, which vectors are loaded along."""
    return (*strides[:-1], 1) if shape_of(value)[-1] == 1 else strides


def _unstretched(host: Host, value: Value) -> Value:
    """Where a mask lies: four dims, with 1 for the sizes that it was stretched along."""
    layout = host.layout_of(value)
    missing = 4 - len(layout.sizes)
    dims = [(1, 1)] * missing + [
        (1, 1) if n == 1 or s == 0 else (n, s) for n, s in zip(layout.sizes, layout.strides, strict=True)
    ]
    sizes, strides = zip(*dims, strict=True)
    return host.view(replace(layout, sizes=sizes, strides=strides), spelling_of(value))
