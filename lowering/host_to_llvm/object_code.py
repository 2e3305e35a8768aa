"""Machine code from a flat module in the LLVM dialect, by MLIR's JIT; nothing of it is run here."""

from __future__ import annotations

import os
import tempfile

from cuesta._mlir import ExecutionEngine, ir
from cuesta.errors import CompileError


def compile_to_object(module: ir.Module, opt_level: int = 3) -> bytes:
    """The relocatable object of `module`, whose functions must all have external linkage.

    Raises CompileError where LLVM makes none; what it says about that goes to stderr only.
    """
    with tempfile.TemporaryDirectory(prefix="cuesta-") as folder:
        path = os.path.join(folder, "graph.o")
        _weaken_declarations(module)
        try:
            engine = ExecutionEngine(module, opt_level=opt_level, enable_object_dump=True)
            engine.dump_to_object_file(path)
        except (RuntimeError, ValueError) as error:
            raise CompileError(f"LLVM refused the module: {error}") from error
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            raise CompileError("LLVM wrote no object for the module; its reason is on stderr")
        with open(path, "rb") as file:
            return file.read()


def _weaken_declarations(module: ir.Module) -> None:
    """Lets the JIT leave external symbols open: the loader of the object finds them, and refuses it where
    it cannot. To have the JIT look them up would cost 0.3 s a graph in libtorch_cpu's symbol table."""
    with module.context:
        weak = ir.Attribute.parse("#llvm.linkage<extern_weak>")
        for view in module.body.operations:
            op = view.operation
            if op.name == "llvm.func" and not op.regions[0].blocks:
                op.attributes["linkage"] = weak
