"""Machine code from a flat module in the LLVM dialect, by MLIR's JIT; nothing of it is run here."""

from __future__ import annotations

import os

from cuesta._mlir import ExecutionEngine, ir, llvm
from cuesta.errors import CompileError


def compile_to_object(module: ir.Module, opt_level: int = 2) -> bytes:
    """The relocatable object of `module`, whose functions must all have external linkage.

    Raises CompileError where LLVM makes none; what it says about that goes to stderr only.
    """
    with module.context, ir.Location.unknown():
        _stand_in_for_declarations(module)
    # A file in memory: a full disk stops no compile. The engine takes only a path.
    with open(os.memfd_create("graph.o"), "rb") as file:
        try:
            engine = ExecutionEngine(module, opt_level=opt_level, enable_object_dump=True)
            engine.dump_to_object_file(f"/proc/self/fd/{file.fileno()}")
        except (RuntimeError, ValueError) as error:
            raise CompileError(f"LLVM refused the module: {error}") from error
        objects = file.read()
    if not objects:
        raise CompileError("LLVM wrote no object for the module; its reason is on stderr")
    return objects


def _stand_in_for_declarations(module: ir.Module) -> None:
    """Gives every external function a weak body that is never run, so that the JIT has nothing to look up;
    the loader puts the process's own in its place. Looking up would cost 0.3 s a graph, which is what
    libtorch_cpu's symbol table takes to read."""
    weak = ir.Attribute.parse("#llvm.linkage<weak>")
    for view in module.body.operations:
        op = view.operation
        if op.name != "llvm.func" or len(op.regions[0].blocks):
            continue
        block = op.regions[0].blocks.append(*_parameters(str(op.attributes["function_type"])))
        with ir.InsertionPoint(block):
            llvm.unreachable()
        op.attributes["linkage"] = weak


def _parameters(function_type: str) -> list[ir.Type]:
    """The parameter types of `!llvm.func<i32 (ptr, i64)>`."""
    inner = function_type[function_type.index("(") + 1 : function_type.rindex(")")]
    names = [name.strip() for name in inner.split(",") if name.strip()]
    return [ir.Type.parse("!llvm.ptr" if name == "ptr" else name) for name in names]
