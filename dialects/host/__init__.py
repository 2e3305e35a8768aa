"""Defines the host dialect: the ops that run between kernels, on buffers (memrefs whose type states the strides).

    %b = "host.alloc"() {owner = "plan"} : () -> memref<196608xf32>
    %v = "host.view"(%b) {offset = 0} : (memref<196608xf32>) -> memref<256x768xf32>
    "host.launch"(%x, %v) {kernel = @kernels::@gelu, outputs = 1} : (…) -> ()
    %r = "host.aten"(%v, %w) {overload = "aten.mm.default", …} : (…) -> memref<256x768xf32>
    return %r : memref<256x768xf32>

A view's `offset` is in bytes from its operand's first byte; sizes and strides (in elements) are
those of its type. After `plan-memory` every alloc is a view of the only `host.arena`, or owned by torch.
"""

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS
from cuesta.dialects.fields import number_of
from cuesta.dialects.open_op import OpenOp
from cuesta.sizes import Number

#: Memory for one value. `owner` is "plan" (to be placed in the arena) or "torch" (allocated there).
ALLOC = OpenOp("host.alloc", {"owner": ir.StringAttr})

#: The scratch memory of a call, kept between calls; its size is that of its type.
ARENA = OpenOp("host.arena")

#: The operand's memory from `offset` bytes on, with other sizes and strides. A symbolic `offset` is text. Moves no
#: data.
VIEW = OpenOp("host.view", {"offset": ir.IntegerAttr | ir.StringAttr})


def base_of(value: ir.Value) -> tuple[ir.Value, Number]:
    """(the memref that a view, or a chain of views, is of, the view's offset in it in bytes); else (`value`, 0)."""
    offset: Number = 0
    while not isinstance(value.owner, ir.Block) and value.owner.name == VIEW.name:
        offset += number_of(value.owner.attributes["offset"])
        value = value.owner.operands[0]
    return value, offset


#: Runs a kernel. The last `outputs` operands are written, the others read. The optional `parameters` are the sizes that
#: the kernel is passed. The optional `otherwise` lists other versions of the kernel: the launch runs the first version
#: whose row of `unless` is all 0, or the last version.
LAUNCH = OpenOp("host.launch", {"kernel": ir.SymbolRefAttr, "outputs": ir.IntegerAttr})

#: Calls an ATen overload; `args` as in aten.call, `dtypes` spells the operands' and results' element types.
#: `route` is "out" (a typed entry of torch's C shim, or MKL, that writes into the last operand), "shim" (the shim's
#: dispatcher) or "python" (a callback). Results belong to torch until freed.
CALL = OpenOp(
    "host.aten",
    {
        "overload": ir.StringAttr,
        "args": ir.StringAttr,
        "reason": ir.StringAttr,
        "route": ir.StringAttr,
        "dtypes": ir.ArrayAttr,
    },
)

#: Gives memory that torch owns back to torch. The operand has no later use; it may be an argument that the call owns.
FREE = OpenOp("host.free")

#: Ends the call with an IndexError, or the error that `raises` names, unless the operand, one byte, is 0. The error's
#: text is `message`.
CHECK = OpenOp("host.check", {"message": ir.StringAttr})

#: Name → error that a check may raise.
_RAISED: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}


def _raised(op: ir.Operation) -> str:
    return op.attributes["raises"].value if "raises" in op.attributes else "IndexError"


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    if operands[0].any():
        raise _RAISED[_raised(op)](op.attributes["message"].value)
    return []


def _verify(op: ir.Operation) -> str | None:
    return None if _raised(op) in _RAISED else f"raises one of {', '.join(_RAISED)}, not {_raised(op)}"


REFERENCES[CHECK.name] = _run
VERIFIERS[CHECK.name] = _verify
