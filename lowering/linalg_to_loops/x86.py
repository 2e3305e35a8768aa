"""Builds instructions of x86-64 that vectors of MLIR do not express."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir, vector
from cuesta.lowering.linalg_to_loops.vector_loops import vector_type

#: Adds the products of 16 pairs of bf16 to 16 sums (AVX512-BF16).
_MULTIPLY_PAIRS = "llvm.x86.avx512bf16.dpbf16ps.512"
#: Adds the products of 16 words in pairs (AVX2).
_MULTIPLY_WORDS = "llvm.x86.avx2.pmadd.wd"
#: Look up 16 or 32 numbers in a table of as many, by the low bits of each index (AVX512F, AVX512BW).
_LOOK_UP_WORDS, _LOOK_UP_FLOATS = "llvm.x86.avx512.permvar.hi.512", "llvm.x86.avx512.permvar.sf.512"


def multiply_pairs(x: ir.Value, y: ir.Value, sums: ir.Value) -> ir.Value:
    """16 sums in f32, to each of which the products of a pair of bf16 of x and y are added."""
    return _call(_MULTIPLY_PAIRS, [sums, x, y], vector_type())


def multiply_words(x: ir.Value, y: ir.Value) -> ir.Value:
    """16 integers of 32 bits, each the sum of the products of a pair of words of x and y, which have 32."""
    kind = ir.VectorType.get([8], ir.IntegerType.get_signless(32))
    halves = [[vector.shuffle(v, v, range(first, first + 16)) for v in (x, y)] for first in (0, 16)]
    low, high = (_call(_MULTIPLY_WORDS, own, kind) for own in halves)
    return vector.shuffle(low, high, range(16))


def looked_up(table: ir.Value, places: ir.Value) -> ir.Value:
    """The elements of a table, of 32 words or 16 floats, at places, integers as wide; their upper bits are ignored."""
    is_of_words = isinstance(ir.VectorType(table.type).element_type, ir.IntegerType)
    return _call(_LOOK_UP_WORDS if is_of_words else _LOOK_UP_FLOATS, [table, places], table.type)


def _call(name: str, operands: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    made = ir.Operation.create("llvm.call_intrinsic", results=[kind], operands=list(operands), attributes=attributes)
    return made.results[0]
