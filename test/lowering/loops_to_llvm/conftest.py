"""Functions of math's ops, expanded by expand-math, compiled and called on arrays."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from cuesta._mlir import ExecutionEngine, PassManager, ir
from cuesta.lowering.loops_to_llvm.expand_math import FUNCTIONS, ExpandMath

S = TypeVar("S", bound=np.floating[Any])

CAPACITY = 1 << 22
LOWER_TO_LLVM = (
    "builtin.module(canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,func.func(convert-math-to-llvm),"
    "convert-math-to-libm,"
    "convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-cf-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts)"
)
#: Functions of two numbers.
BINARY = frozenset({"powf", "atan2", "remf"})


@dataclass(frozen=True)
class Compiled:
    """A function of `arity` arrays, element by element."""

    engine: ExecutionEngine
    arity: int

    def __call__(self, *operands: npt.NDArray[S]) -> npt.NDArray[S]:
        """Calls the packed entry of `apply`: an array of pointers to each argument."""
        out = np.empty_like(operands[0])
        arrays = [np.ascontiguousarray(a) for a in operands] + [out]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        size = ctypes.c_int64(out.size)
        assert out.size <= CAPACITY
        slots = [ctypes.addressof(p) for p in pointers] + [ctypes.addressof(size)]
        packed = (ctypes.c_void_p * len(slots))(*slots)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.engine.raw_lookup("apply"))(ctypes.addressof(packed))
        return out

    def listing(self, path: Path) -> str:
        """The machine code, as objdump shows it; `path` is where the object file goes."""
        self.engine.raw_lookup("apply")  # compiles
        self.engine.dump_to_object_file(str(path))
        command = ["objdump", "--disassemble", "--reloc", "--syms", path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _loop(name: str, element: str, arity: int, lanes: int) -> str:
    """A function that applies the op of FUNCTIONS to `n` elements, in vectors where there are several lanes."""
    op = FUNCTIONS[name].op.OPERATION_NAME
    array = f"memref<{CAPACITY}x{element}>"
    kind, memory, of = (f"vector<{lanes}x{element}>", "vector", f", vector<{lanes}x{element}>")
    if lanes == 1:
        kind, memory, of = element, "memref", ""
    operands = "xyz"[:arity]
    arguments = ", ".join(f"%{v}: {array} {{llvm.noalias}}" for v in operands)
    loads = "\n".join(f"%e{v} = {memory}.load %{v}[%i] : {array}{of}" for v in operands)
    uses = ", ".join(f"%e{v}" for v in operands)
    return f"""
    func.func @apply({arguments}, %out: {array} {{llvm.noalias}}, %n: index) {{
      %zero = arith.constant 0 : index
      %step = arith.constant {lanes} : index
      scf.for %i = %zero to %n step %step {{
        {loads}
        %r = {op} {uses} : {kind}
        {memory}.store %r, %out[%i] : {array}{of}
      }}
      return
    }}"""


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Compiled]:
    """Compiles a function of FUNCTIONS for an element type."""

    def compile_function(name: str, element: str = "f32", lanes: int = 1) -> Compiled:
        arity = 2 if name in BINARY else 1
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(_loop(name, element, arity, lanes))
            ExpandMath().run(module)
            assert f"{FUNCTIONS[name].op.OPERATION_NAME} " not in str(module)
            PassManager.parse(LOWER_TO_LLVM).run(module.operation)
            for op in module.body.operations:
                if op.operation.name == "llvm.func" and op.operation.attributes["sym_name"].value == "apply":
                    op.operation.attributes["passthrough"] = ir.Attribute.parse('[["prefer-vector-width", "512"]]')
            return Compiled(ExecutionEngine(module, opt_level=3), arity)

    return compile_function
