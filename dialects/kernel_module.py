"""`module @kernels`, where kernels live once the host function has parted from them, and its names."""

from __future__ import annotations

from cuesta._mlir import ir

#: Kernel k as a function over a range of its tiles, and what runs once after them.
TILES, TAIL = "__tiles", "__tail"


def kernel_modules(module: ir.Module) -> list[ir.Module]:
    """The modules that hold kernels: those nested in `module`."""
    return [op for op in module.body.operations if op.operation.name == "builtin.module"]
