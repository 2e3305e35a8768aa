"""Builds and recognises linalg's ops. Upstream's functions of these names import a language of their own, which takes
0.2 s.
"""

from __future__ import annotations

from cuesta._mlir import ir, linalg

_GENERIC, _FILL, _INDEX = (op.OPERATION_NAME for op in (linalg.GenericOp, linalg.FillOp, linalg.IndexOp))


def is_generic(op: ir.Operation) -> bool:
    """Whether an op is a `linalg.generic`."""
    return op.name == _GENERIC


def is_fill(op: ir.Operation) -> bool:
    """Whether an op is a `linalg.fill`."""
    return op.name == _FILL


def is_index(op: ir.Operation) -> bool:
    """Whether an op is a `linalg.index`."""
    return op.name == _INDEX


def fill(number: ir.Value, destination: ir.Value) -> ir.Value:
    """`linalg.fill`: the tensor `destination` filled with `number`."""
    op = linalg.FillOp([destination.type], [number], [destination])
    linalg.fill_builtin_region(op.operation)
    return op.results[0]


def fill_buffer(number: ir.Value, destination: ir.Value) -> None:
    """`linalg.fill` of a buffer."""
    linalg.fill_builtin_region(linalg.FillOp([], [number], [destination]).operation)


def copy(source: ir.Value, destination: ir.Value) -> None:
    """`linalg.copy` from one buffer to another."""
    op = linalg.CopyOp([], [source], [destination])
    linalg.fill_builtin_region(op.operation)


def transpose(source: ir.Value, destination: ir.Value, permutation: list[int]) -> ir.Value:
    """`linalg.transpose`: dim d of the tensor `destination` is dim permutation[d] of the source."""
    op = linalg.TransposeOp([destination.type], source, destination, permutation)
    linalg.fill_builtin_region(op.operation)
    return op.results[0]
