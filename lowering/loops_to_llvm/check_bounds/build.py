"""Builds LLVM dialect ops on 64-bit integers and pointers, at the current insertion point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.upstream_fields import CALLEE, CONSTANT, ELEM_TYPE

Value: TypeAlias = ir.Value


def integer(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def pointer_type() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def constant(number: int) -> Value:
    return create("llvm.mlir.constant", [], integer(64), CONSTANT.entry(number))


def binary(name: str, x: Value, y: Value) -> Value:
    return create(f"llvm.{name}", [x, y], x.type)


def select(condition: Value, x: Value, y: Value) -> Value:
    return create("llvm.select", [condition, x, y], x.type)


def call(name: str, operands: Sequence[Value], result: ir.Type | None) -> list[Value]:
    """Calls a function of the same module and returns its results; no results if `result` is None."""
    attributes = {
        **CALLEE.entry(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    results = [] if result is None else [result]
    op = ir.Operation.create("llvm.call", results=results, operands=list(operands), attributes=attributes)
    return list(op.results)


def zeros(nbytes: Value) -> Value:
    """Allocates `nbytes` zero bytes on the stack, aligned to 64 bytes, and returns their address."""
    attributes = {**ELEM_TYPE.entry(integer(8)), "alignment": ir.IntegerAttr.get(integer(64), 64)}
    made = create("llvm.alloca", [nbytes], pointer_type(), attributes)
    zero = create("llvm.mlir.constant", [], integer(8), {"value": ir.IntegerAttr.get(integer(8), 0)})
    ir.Operation.create(
        "llvm.intr.memset", operands=[made, zero, nbytes], attributes={"isVolatile": ir.BoolAttr.get(False)}
    )
    return made


def create(
    name: str, operands: Sequence[Value], result: ir.Type, attributes: dict[str, ir.Attribute] | None = None
) -> Value:
    op = ir.Operation.create(name, results=[result], operands=list(operands), attributes=attributes or {})
    return op.results[0]
