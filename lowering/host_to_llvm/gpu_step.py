"""Defines the step that launches a kernel on a GPU through the driver. steps.py describes its table.

The runtime makes a table of the kernels, `cuesta_kernels`: a context, then for each kernel its function, the three
sizes of its grid, its threads and its bytes of shared memory, one word each. A thread that never called CUDA has no
current context: its first launch fails, makes the table's context current and launches again.

A launch that overlaps (passes/gpu/overlap_launches.py) has the attribute by which its programs may begin before the
kernel in front of it has ended. A launch is described in memory, by the driver's CUlaunchConfig and CUlaunchAttribute:

    u32  grid x  y  z  threads x  y  z  shared bytes | pointer  stream  attributes | u32  number of attributes
    u32  kind of attribute  – | u32  its value  …
"""

from __future__ import annotations

from cuesta.lowering.host_to_llvm.steps import DECLARATIONS, I64, PTR, REFUSED, STEP_END, TABLE, at, define

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_OVERLAPS = 6
#: Words of i64 of a CUlaunchConfig and of a CUlaunchAttribute.
_CONFIG, _ATTRIBUTE = 7, 9
_LAUNCH = f"""llvm.call @cuLaunchKernelEx(%config, %function, %parameters, %null)
    : {DECLARATIONS["cuLaunchKernelEx"]}"""


def _put(name: str, struct: str, places: dict[int, str], kind: str = "i32") -> str:
    """Text that stores values at places of a struct, counted in words of `kind`."""
    word = I64 if kind == PTR else kind
    return "\n".join(
        f"""  %{name}_{place} = llvm.getelementptr {struct}[{place}] : ({PTR}) -> {PTR}, {word}
  llvm.store {value}, %{name}_{place} : {kind}, {PTR}"""
        for place, value in places.items()
    )


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
  {at("%overlaps", "%table", 6, I64)}
  {at("%first", "%table", 7)}
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
  %config_words = llvm.mlir.constant({_CONFIG} : i64) : i64
  %attribute_words = llvm.mlir.constant({_ATTRIBUTE} : i64) : i64
  %config = llvm.alloca %config_words x i64 : (i64) -> {PTR}
  %attribute = llvm.alloca %attribute_words x i64 : (i64) -> {PTR}
  %kind = llvm.mlir.constant({_OVERLAPS} : i32) : i32
  %attributes = llvm.trunc %overlaps : i64 to i32
{_put("field", "%config", dict(enumerate(["%x", "%y", "%z", "%threads", "%one32", "%one32", "%shared"])))}
{_put("pointer", "%config", {4: "%stream", 5: "%attribute"}, PTR)}
{_put("count", "%config", {12: "%attributes"})}
{_put("of", "%attribute", {0: "%kind", 2: "%one32"})}
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
