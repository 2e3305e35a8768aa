"""Adds to the machine code a digest of how it must be called (runtime/interface.py says why)."""

from __future__ import annotations

import struct

from cuesta._mlir import ir
from cuesta.runtime.interface import INTERFACE, digest_of
from cuesta.runtime.schema.program import Program


def state_interface(module: ir.Module, program: Program) -> None:
    """Adds a constant to a flat module in the LLVM dialect: the digest of `program`, the metadata of the module."""
    words = list(struct.unpack("<4q", digest_of(program)))
    text = f"llvm.mlir.global constant @{INTERFACE}(dense<{words}> : tensor<4xi64>) : !llvm.array<4 x i64>"
    with module.context, ir.Location.unknown():
        parsed = ir.Module.parse(text)
        (constant,) = parsed.body.operations
        end = module.body.operations[len(module.body.operations) - 1]
        constant.operation.move_after(end.operation)
