"""Defines the host dialect: the ops that run between kernels, on buffers (memrefs whose type states the strides).

    %b = "host.alloc"() {owner = "plan"} : () -> memref<196608xf32>
    %v = "host.view"(%b) {offset = 0} : (memref<196608xf32>) -> memref<256x768xf32>
    "host.launch"(%x, %v) {kernel = @kernels::@gelu, outputs = 1} : (…) -> ()
    %r = "host.aten"(%v, %w) {overload = "aten.mm.default", …} : (…) -> memref<256x768xf32>
    return %r : memref<256x768xf32>

A view's `offset` is in bytes from its operand's first byte; sizes and strides (in elements) are
those of its type. After `plan-memory` every alloc is a view of the only `host.arena`, or owned by torch.
"""

from typing import Annotated

import torch

from cuesta._mlir import ir
from cuesta.dialects.aten import AtenCall
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS
from cuesta.dialects.fields import OPTIONAL, Int, Marker, NumberRows, Numbers, Numeral, Symbol, Symbols, Text, Texts
from cuesta.dialects.open_op import OpenOp
from cuesta.sizes import Number


class Alloc(OpenOp, name="host.alloc"):
    """Memory for one value. `owner` is "plan" (to be placed in the arena), "torch" (allocated there) or "caller" (the
    caller allocates it)."""

    owner: Text


class Arena(OpenOp, name="host.arena"):
    """The scratch memory of a call, kept between calls; its size is that of its type."""


class View(OpenOp, name="host.view"):
    """The operand's memory from `offset` bytes on, with other sizes and strides. Moves no data."""

    offset: Numeral


class Launch(OpenOp, name="host.launch"):
    """Runs a kernel. The last `outputs` operands are written, the others read."""

    kernel: Symbol
    outputs: Int
    #: The names of the ops that the kernel computes.
    ops: Annotated[Texts, OPTIONAL]
    #: The sizes that the kernel is passed.
    parameters: Annotated[Numbers, OPTIONAL]
    #: Other versions of the kernel: the launch runs the first whose row of `unless` is all 0, or the last version.
    otherwise: Annotated[Symbols, OPTIONAL]
    unless: Annotated[NumberRows, OPTIONAL]
    #: In a program that checks its operands: the size of each in bytes.
    extents: Annotated[Numbers, OPTIONAL]
    #: The kernel may begin before the one in front of it has ended: it waits by itself.
    overlaps: Annotated[Marker, OPTIONAL]
    #: Launches with the same number are side by side, need nothing of each other, and count as one step.
    together: Annotated[Int, OPTIONAL]
    #: The kernels that this one was joined of.
    members: Annotated[Texts, OPTIONAL]


class Call(AtenCall, name="host.aten"):
    """Calls an ATen overload. Results belong to torch until freed."""

    #: "out" (a typed entry of torch's C shim, or MKL, that writes into the last operand), "shim" (the shim's
    #: dispatcher) or "python" (a callback).
    route: Text
    dtypes: Texts


def operand_dtypes(call: ir.Operation) -> list[str]:
    """The spellings of the element types of a call's operands."""
    return Call.dtypes.of(call)[: len(call.operands)]


def result_dtypes(call: ir.Operation) -> list[str]:
    """The spellings of the element types of a call's results."""
    return Call.dtypes.of(call)[len(call.operands) :]


class Free(OpenOp, name="host.free"):
    """Gives memory that torch owns back to torch. The operand has no later use; it may be an argument that the call
    owns."""


class Check(OpenOp, name="host.check"):
    """Ends the call with an IndexError, or the error that `raises` names, unless the operand, one byte, is 0."""

    #: The error's text.
    message: Text
    raises: Annotated[Text, OPTIONAL]


def groups_in(block: ir.Block) -> list[list[ir.Operation]]:
    """The launches of a host function's block that are together, in order."""
    groups: dict[int, list[ir.Operation]] = {}
    for view in block.operations:
        op = view.operation
        if Launch.matches(op) and (number := Launch.together.find(op)) is not None:
            groups.setdefault(number, []).append(op)
    return list(groups.values())


def base_of(value: ir.Value) -> tuple[ir.Value, Number]:
    """(the memref that a view, or a chain of views, is of, the view's offset in it in bytes); else (`value`, 0)."""
    offset: Number = 0
    while not isinstance(value.owner, ir.Block) and View.matches(value.owner):
        offset += View.offset.of(value.owner)
        value = value.owner.operands[0]
    return value, offset


#: Name → error that a check may raise.
_RAISED: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}


def raised_by(op: ir.Operation) -> str:
    """The name of the error that a check raises."""
    return Check.raises.find(op) or "IndexError"


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    if operands[0].any():
        raise _RAISED[raised_by(op)](Check.message.of(op))
    return []


def _verify(op: ir.Operation) -> str | None:
    return None if raised_by(op) in _RAISED else f"raises one of {', '.join(_RAISED)}, not {raised_by(op)}"


REFERENCES[Check.OPERATION_NAME] = _run
VERIFIERS[Check.OPERATION_NAME] = _verify
