"""Defines the op that holds instructions of the GPU: those by which kernels overlap, those on bytes, and those on f32.

instruction(WAIT)           "tt.elementwise_inline_asm"() {asm_string = "griddepcontrol.wait; // $0", …} : () -> i32
per_byte(%x, BYTE)          "tt.elementwise_inline_asm"(%x) {asm_string = "… prmt.b32 $0, t, 0x4B000000, 0x7650; …"}
per_float(%x, which=ROUND)  "tt.elementwise_inline_asm"(%x) {asm_string = "… cvt.rn.bf16x2.f32 t, $3, $2; …"}
widened(%x)                 "tt.elementwise_inline_asm"(%x) {asm_string = "shl.b32 $0, $2, 16; …"}
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.fields import Text
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt.fields import I32, Bool
from cuesta.dialects.tt.types import block_type, element, shape_of

#: The instructions: a kernel lets the next kernel begin, and it waits until the one before has ended and all that this
#: wrote can be seen. NVIDIA's GPUs have them from capability 9.0 on.
LET_NEXT_BEGIN, WAIT = INSTRUCTIONS = ("griddepcontrol.launch_dependents", "griddepcontrol.wait")


#: What becomes of each byte, as f32: 2^23 more than the byte, or than the signed byte and 128; 128 more than its lower
#: four bits, or than its upper four; the number that it stands for in a format of floats of 8 bits.
BYTE, SIGNED_BYTE, LOW_HALF, HIGH_HALF = "byte", "signed byte", "low half", "high half"
E4M3, E5M2 = "e4m3", "e5m2"
#: What is done first with a word of four bytes, $4; the word whose bytes make the rest of a float; and the bytes of a
#: float by number, the first four being those of the bytes' word, of which `%d` is the byte in question.
_OF_BYTES = {
    BYTE: ("mov.b32 t, $4;", "0x4B000000", "0x765%d"),
    SIGNED_BYTE: ("xor.b32 t, $4, 0x80808080;", "0x4B000000", "0x765%d"),
    LOW_HALF: ("and.b32 t, $4, 0x0F0F0F0F;", "0x43000000", "0x7%d54"),
    HIGH_HALF: ("shr.b32 t, $4, 4; and.b32 t, t, 0x0F0F0F0F;", "0x43000000", "0x7%d54"),
}


def _text(which: str) -> str:
    if which in (E4M3, E5M2):
        # Two numbers become f16 at once, which holds all of both formats.
        halves = f"mov.b32 {{c, d}}, $4; cvt.rn.f16x2.{which}x2 a, c; cvt.rn.f16x2.{which}x2 b, d;"
        wide = " ".join(f"cvt.f32.f16 ${i}, {half};" for i, half in enumerate("efgh"))
        parts = "mov.b32 {e, f}, a; mov.b32 {g, h}, b;"
        return f"{{ .reg .b16 c, d, e, f, g, h; .reg .b32 a, b; {halves} {parts} {wide} }}"
    first, rest, places = _OF_BYTES[which]
    return f"{{ .reg .b32 t; {first} {' '.join(f'prmt.b32 ${i}, t, {rest}, {places % i};' for i in range(4))} }}"


#: The instructions' text → what becomes of each byte.
OF_BYTES = {_text(which): which for which in (*_OF_BYTES, E4M3, E5M2)}


#: What becomes of each f32: it is rounded to what bf16 holds; 1 / (1 + exp(-x)), with 0 instead of denormals, and with
#: a relative error of about 2^-20 where x is at least -10, which grows to 2^-18 where x is -87; 2^x, with 0 instead of
#: denormals, and a relative error of about 2^-22; 1 / x, with 0 instead of denormals, and a relative error of 2^-23;
#: the product of two, rounded before anything is added to it.
ROUND, LOGISTIC, POWER, RECIPROCAL, PRODUCT = "round", "logistic", "power", "reciprocal", "product"
#: How many numbers are taken at once, and the instructions, whose results come first ($0, …), then their operands.
_OF_FLOATS = {
    ROUND: (2, "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; shl.b32 $0, t, 16; and.b32 $1, t, 0xFFFF0000; }"),
    LOGISTIC: (
        1,
        "{ .reg .f32 t; mul.rn.f32 t, $1, 0fBFB8AA3B; ex2.approx.ftz.f32 t, t; add.rn.f32 t, t, 0f3F800000; "
        "rcp.approx.ftz.f32 $0, t; }",
    ),
    POWER: (1, "ex2.approx.ftz.f32 $0, $1;"),
    RECIPROCAL: (1, "rcp.approx.ftz.f32 $0, $1;"),
    PRODUCT: (1, "mul.rn.f32 $0, $1, $2;"),
}
#: The instructions' text → what becomes of each f32.
OF_FLOATS = {text: which for which, (_, text) in _OF_FLOATS.items()}

#: What makes two f32 of two numbers of bf16, which are in one word: each in one instruction.
WIDEN = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xFFFF0000;"


class ElementwiseInlineAsm(OpenOp, name="tt.elementwise_inline_asm"):
    """Instructions of the GPU: on four bytes of a block at once, on two bf16, on one f32 or two of a block or of two
    blocks, or without operands. Triton wants a result of those without operands, too, which is never written."""

    asm_string: Text
    constraints: Text
    packed_element: I32
    pure: Bool


def instruction(text: str) -> ir.Operation:
    """One of INSTRUCTIONS."""
    return ElementwiseInlineAsm.build(
        [], [element("i32")], asm_string=f"{text}; // $0", constraints="=r", packed_element=1, pure=False
    )


def per_byte(x: ir.Value, which: str) -> ir.Value:
    """What becomes of each byte of a block, as f32."""
    return _per_element([x], _text(which), together=4, words=1)


def per_float(*blocks: ir.Value, which: str) -> ir.Value:
    """What becomes of each f32 of a block, or of two blocks of one shape."""
    together, text = _OF_FLOATS[which]
    return _per_element(blocks, text, together, words=together * len(blocks))


def widened(x: ir.Value) -> ir.Value:
    """A block of bf16 as f32."""
    return _per_element([x], WIDEN, together=2, words=1)


def _per_element(blocks: Sequence[ir.Value], text: str, together: int, words: int) -> ir.Value:
    """Instructions that make f32 of so many elements of a block at once, which are passed to them in `words`."""
    return ElementwiseInlineAsm.build(
        blocks,
        [block_type(shape_of(blocks[0]), "f32")],
        asm_string=text,
        constraints=",".join(["=r"] * together + ["r"] * words),
        packed_element=together,
        pure=True,
    ).result
