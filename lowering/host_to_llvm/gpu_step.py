"""Defines the step that launches a kernel on a GPU through the driver. steps.py describes its table.

The runtime makes a table of the kernels, `cuesta_kernels`: a context, then for each kernel its function, the three
sizes of its grid, its threads and its bytes of shared memory, one word each. A thread that never called CUDA has no
current context: its first launch fails, makes the table's context current and launches again.
"""

from __future__ import annotations

from cuesta.lowering.host_to_llvm.steps import DECLARATIONS, I64, PTR, REFUSED, STEP_END, TABLE, at, define

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_LAUNCH = f"""llvm.call @cuLaunchKernel(
    %function, %x, %y, %z, %threads, %one32, %one32, %shared, %stream, %parameters, %null)
    : {DECLARATIONS["cuLaunchKernel"]}"""

#: Name → definition.
HELPERS: dict[str, str] = {
    # Passes the addresses of the buffers, the sizes, then two nulls for Triton's global and profiling scratch. An error
    # code of the driver is stored in the stream's slot. An empty grid is not launched: the driver refuses it.
    "cuesta_launch": define(
        "cuesta_launch",
        TABLE,
        "i32",
        f"""
  {at("%kernel", "%table", 1, I64)}
  {at("%buffers", "%table", 2, I64)}
  {at("%sizes", "%table", 3, I64)}
  {at("%stream_index", "%table", 4, I64)}
  {at("%programs", "%table", 5, I64)}
  {at("%first", "%table", 6)}
  {at("%stream_slot", "%slots", "%stream_index")}
  %stream = llvm.load %stream_slot : {PTR} -> {PTR}
  %two = llvm.mlir.constant(2 : i64) : i64
  %one32 = llvm.mlir.constant(1 : i32) : i32
  %words_of_buffers = llvm.mul %buffers, %two : i64
  {at("%first_size", "%first", "%words_of_buffers")}
  %given = llvm.add %buffers, %sizes : i64
  %count = llvm.add %given, %two : i64
  %addresses = llvm.alloca %count x {PTR} : (i64) -> {PTR}
  %parameters = llvm.alloca %count x {PTR} : (i64) -> {PTR}
  %none = llvm.icmp "eq" %programs, %zero : i64
  llvm.cond_br %none, ^finish(%good : i32), ^fill(%zero : i64)
^fill(%i: i64):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^one, ^launch
^one:
  {at("%place", "%addresses", "%i")}
  {at("%parameter", "%parameters", "%i")}
  llvm.store %place, %parameter : {PTR}, {PTR}
  %next = llvm.add %i, %one : i64
  %is_buffer = llvm.icmp "ult" %i, %buffers : i64
  llvm.cond_br %is_buffer, ^buffer, ^other
^buffer:
  %word = llvm.mul %i, %two : i64
  {at("%item", "%first", "%word")}
  %address = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  llvm.store %address, %place : {PTR}, {PTR}
  llvm.br ^fill(%next : i64)
^other:
  %is_size = llvm.icmp "ult" %i, %given : i64
  llvm.cond_br %is_size, ^size, ^scratch
^size:
  %number_of_size = llvm.sub %i, %buffers : i64
  {at("%size", "%first_size", "%number_of_size")}
  llvm.store %size, %parameter : {PTR}, {PTR}
  llvm.br ^fill(%next : i64)
^scratch:
  llvm.store %null, %place : {PTR}, {PTR}
  llvm.br ^fill(%next : i64)
^launch:
  %kernels = llvm.mlir.addressof @cuesta_kernels : {PTR}
  %six = llvm.mlir.constant(6 : i64) : i64
  %row = llvm.mul %kernel, %six : i64
  %words = llvm.add %row, %one : i64
  {at("%entry", "%kernels", "%words")}
  %function = llvm.load %entry : {PTR} -> {PTR}
  {at("%own", "%entry", 1, "i32")}
  %few = llvm.trunc %programs : i64 to i32
  %is_given = llvm.icmp "sgt" %programs, %zero : i64
  %x = llvm.select %is_given, %few, %own : i1, i32
  {at("%y", "%entry", 2, "i32")}
  {at("%z", "%entry", 3, "i32")}
  {at("%threads", "%entry", 4, "i32")}
  {at("%shared", "%entry", 5, "i32")}
  %launched = {_LAUNCH}
  %no_context = llvm.mlir.constant({_NO_CONTEXT} : i32) : i32
  %lost = llvm.icmp "eq" %launched, %no_context : i32
  llvm.cond_br %lost, ^again, ^end(%launched : i32)
^again:
  %context = llvm.load %kernels : {PTR} -> {PTR}
  %current = llvm.call @cuCtxSetCurrent(%context) : ({PTR}) -> i32
  %relaunched = {_LAUNCH}
  llvm.br ^end(%relaunched : i32)
^end(%outcome: i32):
  %wide = llvm.sext %outcome : i32 to i64
  %failed = llvm.icmp "ne" %outcome, %good : i32
  llvm.cond_br %failed, ^report, ^finish(%outcome : i32)
^report:
  llvm.store %wide, %stream_slot : i64, {PTR}
  llvm.br ^finish(%outcome : i32)
^finish(%code: i32):
  {REFUSED}{STEP_END}""",
    ),
}
