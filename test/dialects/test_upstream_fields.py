"""Fields of MLIR's own ops, read from ops and written back."""

from __future__ import annotations

from typing import Any

import pytest

from cuesta._mlir import ir
from cuesta.dialects import make_context, upstream_fields, walk
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.fields import Field

TEXT = """
func.func @both(%x: memref<4x5xf32>, %y: memref<5x4xf32>, %m: memref<4x8xf32>, %s: memref<4xf32>) {
  linalg.transpose ins(%x: memref<4x5xf32>) outs(%y: memref<5x4xf32>) permutation = [1, 0]
  %c = arith.constant 3 : index
  %less = arith.cmpi slt, %c, %c : index
  %part = memref.subview %m[0, 2] [4, 4] [1, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 2>>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x: memref<4x5xf32>) outs(%s: memref<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %i = linalg.index 1 : index
      linalg.yield %b : f32
  }
  call @both(%x, %y, %m, %s) : (memref<4x5xf32>, memref<5x4xf32>, memref<4x8xf32>, memref<4xf32>) -> ()
  return
}
"""
READ: dict[tuple[str, str], Any] = {
    ("func.func", "SYM_NAME"): "both",
    ("func.call", "CALLEE"): "both",
    ("linalg.generic", "ITERATOR_TYPES"): ["parallel", "reduction"],
    ("linalg.index", "INDEX_DIM"): 1,
    ("linalg.transpose", "PERMUTATION"): [1, 0],
    ("memref.subview", "STATIC_OFFSETS"): [0, 2],
    ("memref.subview", "STATIC_SIZES"): [4, 4],
    ("arith.constant", "CONSTANT"): 3,
    ("arith.cmpi", "PREDICATE"): 2,
}


def op_of(module: ir.Module, name: str) -> ir.Operation:
    return next(op for op in walk(module.operation) if op.name == name)


@pytest.mark.parametrize(("name", "field_name"), READ)
def test_reads_and_writes(name: str, field_name: str) -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        field: Field[Any] = getattr(upstream_fields, field_name)
        op = op_of(module, name)
        value = field.of(op)
        assert value == READ[name, field_name]
        if field_name != "CONSTANT":  # an index here; Scalar writes i64
            assert field.entry(value) == {field.name: op.attributes[field.name]}


def test_types_of_functions_are_function_types() -> None:
    with make_context(), ir.Location.unknown():
        kind = upstream_fields.FUNCTION_TYPE.of(op_of(ir.Module.parse(TEXT), "func.func"))
        assert [len(kind.inputs), len(kind.results)] == [4, 0]


def test_dims_of_operands() -> None:
    with make_context(), ir.Location.unknown():
        assert operand_dims(op_of(ir.Module.parse(TEXT), "linalg.generic")) == [(0, 1), (0,)]
