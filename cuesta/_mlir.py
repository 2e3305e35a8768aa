"""Imports upstream MLIR's Python bindings: the only module that names their provider.

Everything else imports `ir`, `PassManager`, the dialect modules and the rest from here, so that another provider
changes this file alone.
"""

import ctypes
import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from torch_mlir import _mlir_libs, ir, rewrite
from torch_mlir.dialects import (
    affine,
    arith,
    bufferization,
    cf,
    ext,
    func,
    irdl,
    math,
    memref,
    scf,
    tensor,
    vector,
)
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager


def _in_part(name: str, parts: tuple[str, ...]) -> Any:
    """Imports a package of the provider with only `parts`; the rest is loaded when one of its names is used."""
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(spec)
    read_all = spec.loader.exec_module

    def read(missing: str) -> Any:
        if missing.startswith("__") and missing != "__all__":
            raise AttributeError(f"module {name!r} has no attribute {missing!r}")
        del vars(module)["__getattr__"]
        read_all(module)
        return getattr(module, missing)

    for part in map(importlib.import_module, parts):
        # Leaves out the parts' functions: where the full package has functions of its own language by these names, it
        # exports those.
        vars(module).update(
            {k: v for k, v in vars(part).items() if not isinstance(v, types.FunctionType)} | vars(module)
        )
    vars(module)["__getattr__"] = read
    sys.modules[name] = module
    return module


# The whole linalg package imports a language of its own, with functions named like the ops, which nothing here uses;
# that takes 0.2 s.
linalg = _in_part(
    f"{scf.__package__}.linalg",
    (
        "torch_mlir._mlir_libs._mlirDialectsLinalg",
        f"{scf.__package__}._linalg_ops_gen",
        f"{scf.__package__}._linalg_enum_gen",
    ),
)

# The whole llvm package has classes for three hundred ops, none of which is used: 0.03 s. The provider imports the
# package when it meets such an op, but uses nothing in it.
_in_part(f"{scf.__package__}.llvm", ())

# For each op that it meets, the provider looks for a Python module of the op's dialect, and does not remember that
# there is none: a quarter of a second a graph. Empty modules answer at once.
for _namespace in ("aten", "cuesta", "host", "kernel", "tt"):
    _name = f"{scf.__package__}.{_namespace}"
    sys.modules.setdefault(_name, types.ModuleType(_name))


def c_interface() -> ctypes.CDLL:
    """MLIR's C interface, which the bindings call as well. Calls through ctypes release the GIL."""
    return ctypes.CDLL(str(Path(_mlir_libs.__path__[0]) / "libTorchMLIRAggregateCAPI.so"))


__all__ = [
    "ExecutionEngine",
    "PassManager",
    "affine",
    "arith",
    "bufferization",
    "c_interface",
    "cf",
    "ext",
    "func",
    "ir",
    "irdl",
    "linalg",
    "math",
    "memref",
    "rewrite",
    "scf",
    "tensor",
    "vector",
]
