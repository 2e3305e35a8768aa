"""The one place that names the provider of upstream MLIR's Python bindings.

Everything else imports `ir`, `PassManager`, the dialect modules and the rest from here, so that
another provider is a change of this file alone.
"""

from torch_mlir import ir, rewrite
from torch_mlir.dialects import (
    affine,
    arith,
    bufferization,
    cf,
    ext,
    func,
    linalg,
    llvm,
    math,
    memref,
    scf,
    tensor,
)
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

__all__ = [
    "ExecutionEngine",
    "PassManager",
    "affine",
    "arith",
    "bufferization",
    "cf",
    "ext",
    "func",
    "ir",
    "linalg",
    "llvm",
    "math",
    "memref",
    "rewrite",
    "scf",
    "tensor",
]
