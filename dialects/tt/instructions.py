"""Defines the op that holds an instruction of the GPU: those by which kernels overlap.

instruction(WAIT)       "tt.elementwise_inline_asm"() {asm_string = "griddepcontrol.wait; // $0", …} : () -> i32
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.fields import Text
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt.fields import I32, Bool
from cuesta.dialects.tt.types import element

#: The instructions: a kernel lets the next kernel begin, and it waits until the one before has ended and all that this
#: wrote can be seen. NVIDIA's GPUs have them from capability 9.0 on.
LET_NEXT_BEGIN, WAIT = INSTRUCTIONS = ("griddepcontrol.launch_dependents", "griddepcontrol.wait")


class ElementwiseInlineAsm(OpenOp, name="tt.elementwise_inline_asm"):
    """An instruction of the GPU without operands. Triton wants a result, which is never written."""

    asm_string: Text
    constraints: Text
    packed_element: I32
    pure: Bool


def instruction(text: str) -> ir.Operation:
    """One of INSTRUCTIONS."""
    return ElementwiseInlineAsm.build(
        [], [element("i32")], asm_string=f"{text}; // $0", constraints="=r", packed_element=1, pure=False
    )
