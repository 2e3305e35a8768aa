"""Compiles a flat module in the LLVM dialect to machine code with MLIR's JIT; runs none of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cuesta._mlir import ir
from cuesta.dialects.upstream_fields import FUNCTION_TYPE, LINKAGE, SYM_NAME
from cuesta.lowering.host_to_llvm.engine import make_object
from cuesta.lowering.host_to_llvm.launch_step import PACKED
from cuesta.lowering.host_to_llvm.parts import Part, parts_of
from cuesta.runtime.archive import pack


def compile_to_object(module: ir.Module, opt_level: int = 2) -> bytes:
    """Compiles `module`, whose functions must all have external linkage, to a relocatable object or, if it has several
    parts, to an archive of their objects. Threads compile the parts, at most as many as the process has cores.

    Raises CompileError if LLVM fails; LLVM's own message goes to stderr only.
    """
    return begin_object(module, opt_level)()


def begin_object(module: ir.Module, opt_level: int = 2) -> Callable[[], bytes]:
    """Begins what `compile_to_object` does, in threads. The returned function waits for the object."""
    parts = _parts(module)
    pool = _pool(len(parts))
    made = [pool.submit(_make, part, opt_level) for part in parts]
    pool.shutdown(wait=False)

    def finish() -> bytes:
        try:
            objects = [part.result() for part in made]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupted compile begins no further part
        return objects[0] if len(objects) == 1 else pack(objects)

    return finish


def _make(part: Part, opt_level: int) -> bytes:
    if part.common:
        return _make_common(part.text)
    return make_object(part.text, opt_level if part.optimised else 0)


@functools.lru_cache(maxsize=64)
def _make_common(text: str) -> bytes:
    return make_object(text, 0)


def _parts(module: ir.Module) -> list[Part]:
    with module.context, ir.Location.unknown():
        _stand_in_for_declarations(module)
        return parts_of(module)


def _pool(parts: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(parts, len(os.sched_getaffinity(0))), "cuesta-llvm")


def _stand_in_for_declarations(module: ir.Module) -> None:
    """Gives every external function a weak body that never runs, so that the JIT looks up no symbols; the loader
    replaces these bodies by the process's own functions. Looking up would cost 0.3 s a graph, the time to read
    libtorch_cpu's symbol table."""
    weak = ir.Attribute.parse("#llvm.linkage<weak>")
    for view in module.body.operations:
        op = view.operation
        if op.name != "llvm.func" or len(op.regions[0].blocks):
            continue
        if SYM_NAME.of(op).startswith(PACKED):
            continue  # the JIT writes it
        block = op.regions[0].blocks.append(*_parameters(str(FUNCTION_TYPE.of(op))))
        with ir.InsertionPoint(block):
            ir.Operation.create("llvm.unreachable")
        LINKAGE.put(op, weak)


def _parameters(function_type: str) -> list[ir.Type]:
    """The parameter types of `!llvm.func<i32 (ptr, i64)>`."""
    inner = function_type[function_type.index("(") + 1 : function_type.rindex(")")]
    names = [name.strip() for name in inner.split(",") if name.strip()]
    return [ir.Type.parse("!llvm.ptr" if name == "ptr" else name) for name in names]
