"""Defines how the host program runs a kernel on a CPU: its tiles in torch's OpenMP pool, then its tail.

    llvm.func @k__tiles(pointers…, sizes…, first, end)       cuesta_run(slots, frame, table,
    llvm.func @k__tail(pointers…, sizes…)                               @_mlir_k__tiles, @_mlir_k__tail)

For every function f of an object the JIT writes a wrapper `@_mlir_f(%packed)`, which takes an array of pointers to the
arguments. One function, `cuesta_run`, runs all kernels through their wrappers; a driver for each kernel took a quarter
of LLVM's time. Kernels share the thread pool of torch's own kernels, so that no thread waits for a core on which
another pool spins. A kernel with too little work to wake threads for runs on the calling thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import kernel_fields
from cuesta.dialects.kernel_module import TAIL, TILES
from cuesta.dialects.upstream_fields import FUNCTION_TYPE, SYM_NAME
from cuesta.lowering.host_to_llvm.steps import DECLARATIONS, I64, PTR, TABLE, at, define
from cuesta.sizes import Number, Operators, compute

#: Prefix of the JIT's wrapper of a function f, which takes an array of pointers to f's arguments.
PACKED = "_mlir_"

#: The least work, in scalar operations, that a thread is woken for.
WORK_PER_THREAD = 1 << 15

_Operators: TypeAlias = "Operators[Number]"


@dataclass(frozen=True)
class Kernel:
    """What the host program knows of a kernel's functions."""

    buffers: int
    sizes: int
    tiles: Number = 0
    work: Number = 0
    has_tail: bool = False

    @property
    def takes(self) -> tuple[int, int]:
        return self.buffers, self.sizes

    def functions(self, name: str) -> tuple[str | None, str | None]:
        """The names of the functions for the tiles and for the tail; None for one that the kernel lacks."""
        return (None if self.tiles == 0 else name + TILES), (name + TAIL if self.has_tail else None)

    def table(
        self, threads: int, places: Sequence[Number], sizes: Sequence[Number], extents: Sequence[Number] = ()
    ) -> list[Number]:
        """The table of a launch. `threads` is the slot of the thread count. A checked kernel is passed `extents`, the
        bytes of its buffers, before its sizes."""
        given = {f"p{i}": size for i, size in enumerate(sizes)}
        using: _Operators = Operators()
        counts = [compute(n, given, using) for n in (self.tiles, self.work // WORK_PER_THREAD)]
        return [self.buffers, self.sizes, *counts, threads, *places, *extents, *sizes]


def with_function(kernel: Kernel | None, function: ir.Operation) -> Kernel:
    """The kernel with one more of its functions, tiles or tail."""
    kinds = str(FUNCTION_TYPE.of(function))
    is_tail = SYM_NAME.of(function).endswith(TAIL)
    known = kernel or Kernel(kinds.count("ptr"), kinds.count("i64") - (0 if is_tail else 2))
    if is_tail:
        return replace(known, has_tail=True)
    return replace(known, tiles=kernel_fields.TILES.of(function), work=kernel_fields.WORK.of(function))


def _loop(name: str, limit: str, body: str, after: str) -> str:
    """Text of a loop that runs `body` with %name_i from 0 to `limit` - 1, then continues at ^after."""
    i = f"%{name}_i"
    return f"""
  llvm.br ^{name}(%zero : i64)
^{name}({i}: i64):
  %{name}_more = llvm.icmp "slt" {i}, {limit} : i64
  llvm.cond_br %{name}_more, ^{name}_body, ^{after}
^{name}_body:{body}
  %{name}_next = llvm.add {i}, %one : i64
  llvm.br ^{name}(%{name}_next : i64)
^{after}:"""


def _pointer_at(result: str, array: str, index: str) -> str:
    return f"{result} = llvm.getelementptr {array}[{index}] : ({PTR}, i64) -> {PTR}, {PTR}"


_CALL_TILES = f"llvm.call %tiles(%packed) : {PTR}, ({PTR}) -> ()"

_ADDRESSES = _loop(
    "buffer",
    "%buffers",
    f"""
  %twice = llvm.mul %buffer_i, %two : i64
  {at("%item", "%places", "%twice")}
  %address = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  {at("%buffer", "%values", "%buffer_i")}
  llvm.store %address, %buffer : {PTR}, {PTR}""",
    "sizes",
)
_SIZES = _loop(
    "size",
    "%sizes",
    f"""
  {at("%word", "%given", "%size_i", I64)}
  {at("%size", "%own", "%size_i")}
  llvm.store %word, %size : i64, {PTR}""",
    "packing",
)
_PACKING = _loop(
    "value",
    "%all",
    f"""
  {at("%value", "%values", "%value_i")}
  {_pointer_at("%slot", "%packed", "%value_i")}
  llvm.store %value, %slot : {PTR}, {PTR}""",
    "run",
)

HELPERS = {
    "cuesta_run": define(
        "cuesta_run",
        f"{TABLE}, %tiles: {PTR}, %tail: {PTR}",
        "",
        f"""
  %two = llvm.mlir.constant(2 : i64) : i64
  {at("%buffers", "%table", 0, I64)}
  {at("%sizes", "%table", 1, I64)}
  {at("%count", "%table", 2, I64)}
  {at("%busy", "%table", 3, I64)}
  {at("%threads_index", "%table", 4, I64)}
  {at("%threads", "%slots", "%threads_index", I64)}
  {at("%places", "%table", 5)}
  %words = llvm.mul %buffers, %two : i64
  {at("%given", "%places", "%words")}
  %operands = llvm.add %buffers, %sizes : i64
  %all = llvm.add %operands, %two : i64
  %values = llvm.alloca %all x i64 : (i64) -> {PTR}
  %packed = llvm.alloca %all x {PTR} : (i64) -> {PTR}
  %four = llvm.mlir.constant(4 : i64) : i64
  %shared = llvm.alloca %four x i64 : (i64) -> {PTR}
  {at("%own", "%values", "%buffers")}
  {at("%first", "%values", "%operands")}
  {at("%end", "%first", 1)}{_ADDRESSES}{_SIZES}{_PACKING}
  %has_tiles = llvm.icmp "ne" %tiles, %null : {PTR}
  llvm.cond_br %has_tiles, ^tiles, ^tail
^tiles:
  %most = llvm.intr.smin(%busy, %count) : (i64, i64) -> i64
  %team = llvm.intr.smin(%threads, %most) : (i64, i64) -> i64
  %alone = llvm.icmp "sle" %team, %one : i64
  llvm.cond_br %alone, ^serial, ^parallel
^serial:
  llvm.store %zero, %first : i64, {PTR}
  llvm.store %count, %end : i64, {PTR}
  {_CALL_TILES}
  llvm.br ^tail
^parallel:
  {at("%of_values", "%shared", 1)}
  {at("%of_operands", "%shared", 2)}
  {at("%of_count", "%shared", 3)}
  llvm.store %tiles, %shared : {PTR}, {PTR}
  llvm.store %values, %of_values : {PTR}, {PTR}
  llvm.store %operands, %of_operands : i64, {PTR}
  llvm.store %count, %of_count : i64, {PTR}
  %share = llvm.mlir.addressof @cuesta_share : {PTR}
  %team_32 = llvm.trunc %team : i64 to i32
  llvm.call @GOMP_parallel(%share, %shared, %team_32, %good) : {DECLARATIONS["GOMP_parallel"]}
  llvm.br ^tail
^tail:
  %has_tail = llvm.icmp "ne" %tail, %null : {PTR}
  llvm.cond_br %has_tail, ^call_tail, ^done
^call_tail:
  llvm.call %tail(%packed) : {PTR}, ({PTR}) -> ()
  llvm.br ^done
^done:
  llvm.return""",
    ),
    # Each thread of the team runs its share [first, end) of the tiles, with an argument array of its own.
    "cuesta_share": define(
        "cuesta_share",
        f"%shared: {PTR}",
        "",
        f"""
  %two = llvm.mlir.constant(2 : i64) : i64
  %tiles = llvm.load %shared : {PTR} -> {PTR}
  {at("%values", "%shared", 1, PTR)}
  {at("%all", "%shared", 2, I64)}
  {at("%count", "%shared", 3, I64)}
  %length = llvm.add %all, %two : i64
  %packed = llvm.alloca %length x {PTR} : (i64) -> {PTR}
  %bounds = llvm.alloca %two x i64 : (i64) -> {PTR}
  {at("%end", "%bounds", 1)}{_PACKING}
  %thread_32 = llvm.call @omp_get_thread_num() : {DECLARATIONS["omp_get_thread_num"]}
  %team_32 = llvm.call @omp_get_num_threads() : {DECLARATIONS["omp_get_num_threads"]}
  %thread = llvm.sext %thread_32 : i32 to i64
  %team = llvm.sext %team_32 : i32 to i64
  %behind = llvm.add %thread, %one : i64
  %before_all = llvm.mul %count, %thread : i64
  %from = llvm.udiv %before_all, %team : i64
  %until_all = llvm.mul %count, %behind : i64
  %until = llvm.udiv %until_all, %team : i64
  llvm.store %from, %bounds : i64, {PTR}
  llvm.store %until, %end : i64, {PTR}
  {_pointer_at("%of_first", "%packed", "%all")}
  {_pointer_at("%of_end", "%of_first", "%one")}
  llvm.store %bounds, %of_first : {PTR}, {PTR}
  llvm.store %end, %of_end : {PTR}, {PTR}
  {_CALL_TILES}
  llvm.return""",
    ),
}
