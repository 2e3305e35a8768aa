"""Builds linalg's named ops. Upstream's functions of these names import a language of their own, which takes 0.2 s."""

from __future__ import annotations

from cuesta._mlir import ir, linalg


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
