"""The named ops of linalg that cuesta makes. Upstream's functions of these names come with a language of 0.2 s."""

from __future__ import annotations

from cuesta._mlir import ir, linalg


def fill(number: ir.Value, destination: ir.Value) -> ir.Value:
    """`linalg.fill`: the tensor `destination` with `number` in every place."""
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
