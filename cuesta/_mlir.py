"""The one place that names the provider of upstream MLIR's Python bindings.

Everything else imports `ir`, `PassManager`, the dialect modules and the rest from here, so that
another provider is a change of this file alone.
"""

import sys
import types

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
    vector,
)
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

# For each op that it meets, the provider looks for a Python module of the op's dialect, and does not
# remember that there is none: a quarter of a second a graph. Empty ones answer at once.
for _namespace in ("aten", "cuesta", "host", "tt"):
    _name = f"{scf.__package__}.{_namespace}"
    sys.modules.setdefault(_name, types.ModuleType(_name))

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
    "vector",
]
