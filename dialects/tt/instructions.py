"""Defines the op that holds instructions of the GPU: those by which kernels overlap.

instruction(WAIT)       "tt.elementwise_inline_asm"() {asm_string = "griddepcontrol.wait; // $0", …} : () -> i32
prefetch(%p, 16, 4096, 1024)      the first 1024 bytes of 16 rows of 4096 bytes at %p are on their way to the L2 cache
"""

from __future__ import annotations

import re

from cuesta._mlir import ir
from cuesta.dialects.fields import Text
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt.fields import I32, Bool
from cuesta.dialects.tt.types import element

#: The instructions: a kernel lets the next kernel begin, and it waits until the one before has ended and all that this
#: wrote can be seen. NVIDIA's GPUs have them from capability 9.0 on.
LET_NEXT_BEGIN, WAIT = INSTRUCTIONS = ("griddepcontrol.launch_dependents", "griddepcontrol.wait")


#: Of the first threads of a program each asks for the bytes at the beginning of its row. From capability 9.0 on, too.
_PREFETCH = (
    "{{ .reg .pred p; .reg .u32 t; .reg .u64 a; mov.u32 t, %tid.x; setp.lt.u32 p, t, {rows}; "
    "mad.wide.u32 a, t, {row}, $1; @p cp.async.bulk.prefetch.L2.global [a], {size}; }} // $0"
)
_IS_PREFETCH = re.compile(re.escape(_PREFETCH.format(rows="#", row="#", size="#")).replace(r"\#", r"\d+"))


class ElementwiseInlineAsm(OpenOp, name="tt.elementwise_inline_asm"):
    """Instructions of the GPU, with a pointer or without operands. Triton wants a result, which is never written."""

    asm_string: Text
    constraints: Text
    packed_element: I32
    pure: Bool


def instruction(text: str) -> ir.Operation:
    """One of INSTRUCTIONS."""
    return ElementwiseInlineAsm.build(
        [], [element("i32")], asm_string=f"{text}; // $0", constraints="=r", packed_element=1, pure=False
    )


def prefetch(pointer: ir.Value, rows: int, row: int, size: int) -> ir.Operation:
    """Asks for the first `size` bytes of each of `rows` rows of `row` bytes at a pointer, which is a scalar. The bytes
    are a multiple of 16, at multiples of 16, and there; there are no more rows than threads."""
    text = _PREFETCH.format(rows=rows, row=row, size=size)
    return ElementwiseInlineAsm.build(
        [pointer], [element("i32")], asm_string=text, constraints="=r,l", packed_element=1, pure=False
    )


def is_prefetch(op: ir.Operation) -> bool:
    """Whether an op is one that `prefetch` makes."""
    return (
        ElementwiseInlineAsm.matches(op) and _IS_PREFETCH.fullmatch(ElementwiseInlineAsm.asm_string.of(op)) is not None
    )
