"""Machine code from a flat module in the LLVM dialect, by MLIR's JIT; nothing of it is run here."""

from __future__ import annotations

import os
import tempfile

import torch

from cuesta._mlir import ExecutionEngine, ir
from cuesta.errors import CompileError

_TORCH_CPU = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")


def compile_to_object(module: ir.Module, opt_level: int = 3) -> bytes:
    """The relocatable object of `module`, whose functions must all have external linkage.

    Raises CompileError where LLVM makes none; what it says about that goes to stderr only.
    """
    with tempfile.TemporaryDirectory(prefix="cuesta-") as folder:
        path = os.path.join(folder, "graph.o")
        try:
            engine = ExecutionEngine(module, opt_level=opt_level, shared_libs=[_TORCH_CPU], enable_object_dump=True)
            engine.dump_to_object_file(path)
        except (RuntimeError, ValueError) as error:
            raise CompileError(f"LLVM refused the module: {error}") from error
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            raise CompileError("LLVM wrote no object for the module; its reason is on stderr")
        with open(path, "rb") as file:
            return file.read()
