"""Compiles loops that only read, only read and write, or only multiply and add, with vectors of the machine's width.

From the LLVM dialect on they are compiled as cuesta's own kernels are, so no C++ compiler is needed. They contain no
copy, sum or constant that LLVM could replace or fold.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.runtime.elf.loader import LoadedObject, load_object, process_resolver

SUMS = 12
"""Independent accumulators: enough to hide the latency of two FMA units, few enough for AVX2's 16 registers."""
UNROLLED = 8
"""Vectors that one iteration reads."""
SCRATCH = (2 + SUMS) * 64
"""Bytes of the scratch from which the accumulators are loaded and to which they are stored."""

_LANES = {"AVX512": 16, "AVX2": 8}
_PIPELINE = "builtin.module(convert-scf-to-cf,convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"


@dataclass(frozen=True)
class Loops:
    """The loops. Any thread may call them; they release Python's lock. Addresses are multiples of 64.

    A memory block has 2^n bytes, at least 1 KiB. A loop passes over the block repeatedly until `bytes` are processed.
    """

    multiply_add: Callable[[int, int], None]
    """(scratch, iterations)."""
    read: Callable[[int, int, int, int], None]
    """(scratch, memory, bytes of the memory, bytes to process)."""
    scale: Callable[[int, int, int, int], None]
    """(memory to write, memory to read, bytes of each block, bytes to process of each)."""
    stream: Callable[[int, int, int, int], None]
    """The same with non-temporal stores, which bypass the caches."""
    operations: int
    """Operations of one iteration of `multiply_add`."""
    _code: LoadedObject


def make_loops() -> Loops:
    """Compiles and loads the loops."""
    lanes = _LANES.get(torch.backends.cpu.get_cpu_capability(), 4)
    writes = {"scale": "", "stream": ", nontemporal"}
    functions = [_multiply_add(lanes), _read(lanes), *(_scale(name, lanes, how) for name, how in writes.items())]
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse("\n".join(functions))
        Pipeline.parse(_PIPELINE).run(module)
        code = load_object(compile_to_object(module), process_resolver())

    def function(name: str, parameters: int) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * parameters)(code.symbols[name])

    return Loops(
        multiply_add=function("multiply_add", 2),
        read=function("read", 4),
        scale=function("scale", 4),
        stream=function("stream", 4),
        operations=2 * SUMS * lanes,
        _code=code,
    )


def _multiply_add(lanes: int) -> str:
    vector = f"vector<{lanes}xf32>"
    sums = range(SUMS)
    return f"""
llvm.func @multiply_add(%scratch: !llvm.ptr, %count: i64) {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  {_load("%a", "%scratch", SUMS, lanes)}
  {_load("%b", "%scratch", SUMS + 1, lanes)}
  {_lines(_load(f"%i{i}", "%scratch", i, lanes) for i in sums)}
  %sums:{SUMS} = scf.for %n = %zero to %count step %one {_carried(SUMS, vector)} : i64 {{
    {_lines(f"%n{i} = llvm.intr.fmuladd(%a, %b, %s{i}) : ({vector}, {vector}, {vector}) -> {vector}" for i in sums)}
    {_yield(SUMS, vector)}
  }}
  {_lines(_store(f"%sums#{i}", "%scratch", i, lanes) for i in sums)}
  llvm.return
}}"""


def _read(lanes: int) -> str:
    vector = f"vector<{lanes}xf32>"
    each = range(UNROLLED)
    return f"""
llvm.func @read(%scratch: !llvm.ptr, %memory: !llvm.ptr, %size: i64, %bytes: i64) {{
  {_constants(lanes)}
  {_lines(_load(f"%i{i}", "%scratch", i, lanes) for i in each)}
  %sums:{UNROLLED} = scf.for %n = %zero to %bytes step %step {_carried(UNROLLED, vector)} : i64 {{
    {_at("%from", "%memory")}
    {_lines(_load(f"%x{i}", "%from", i, lanes) for i in each)}
    {_lines(f"%n{i} = llvm.fadd %s{i}, %x{i} : {vector}" for i in each)}
    {_yield(UNROLLED, vector)}
  }}
  {_lines(_store(f"%sums#{i}", "%scratch", i, lanes) for i in each)}
  llvm.return
}}"""


def _scale(name: str, lanes: int, how: str) -> str:
    vector = f"vector<{lanes}xf32>"
    each = range(UNROLLED)
    return f"""
llvm.func @{name}(%out: !llvm.ptr, %memory: !llvm.ptr, %size: i64, %bytes: i64) {{
  {_constants(lanes)}
  %half = llvm.mlir.constant(dense<0.5> : {vector}) : {vector}
  scf.for %n = %zero to %bytes step %step : i64 {{
    {_at("%from", "%memory")}
    {_at("%to", "%out")}
    {_lines(_load(f"%x{i}", "%from", i, lanes) for i in each)}
    {_lines(f"%y{i} = llvm.fmul %x{i}, %half : {vector}" for i in each)}
    {_lines(_store(f"%y{i}", "%to", i, lanes, how) for i in each)}
  }}
  llvm.return
}}"""


def _constants(lanes: int) -> str:
    """The constants of a loop over %size bytes. %size is a power of two, so %mask wraps an offset around."""
    return f"""%zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %step = llvm.mlir.constant({UNROLLED * lanes * 4} : i64) : i64
  %mask = llvm.sub %size, %one : i64"""


def _at(name: str, memory: str) -> str:
    offset = f"{name}_offset"
    return f"""{offset} = llvm.and %n, %mask : i64
    {name} = llvm.getelementptr {memory}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"""


def _load(name: str, memory: str, index: int, lanes: int) -> str:
    return f"""{name}_p = llvm.getelementptr {memory}[{index * lanes * 4}] : (!llvm.ptr) -> !llvm.ptr, i8
    {name} = llvm.load {name}_p {{alignment = {lanes * 4} : i64}} : !llvm.ptr -> vector<{lanes}xf32>"""


def _store(value: str, memory: str, index: int, lanes: int, how: str = "") -> str:
    place = f"{memory}_{index}"
    return f"""{place} = llvm.getelementptr {memory}[{index * lanes * 4}] : (!llvm.ptr) -> !llvm.ptr, i8
    llvm.store {value}, {place} {{alignment = {lanes * 4} : i64{how}}} : vector<{lanes}xf32>, !llvm.ptr"""


def _carried(count: int, kind: str) -> str:
    """The loop-carried values %s0, …, with the initial values %i0, …."""
    return f"iter_args({', '.join(f'%s{i} = %i{i}' for i in range(count))}) -> ({', '.join([kind] * count)})"


def _yield(count: int, kind: str) -> str:
    return f"scf.yield {', '.join(f'%n{i}' for i in range(count))} : {', '.join([kind] * count)}"


def _lines(lines: Iterable[str]) -> str:
    return "\n    ".join(lines)
