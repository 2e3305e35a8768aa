"""Builds the function that checks an access of a kernel: it returns the address, or a dummy's if that is outside.

    %p' = call @k__tiles__inside(%p, %start, %width, %base, %extent, %site, %record, %dummy)

The access covers the bytes [%p + %start, %p + %start + %width) and must lie within [%base, %base + %extent). An access
of no bytes is always valid. The first access of a call that is outside is written to %record as one word:

    %site, 24 bits | distance, 40 bits, signed: bytes after the end, or minus the bytes before the beginning

Sites are counted from 1. LLVM inlines the function. It compares integers, because LLVM may assume that pointers stay
within their memory.
"""

from __future__ import annotations

PTR, I64 = "!llvm.ptr", "i64"

#: Bits of a record that hold the distance.
DISTANCE_BITS = 40
#: The most places of accesses that a program may have.
MOST_SITES = (1 << (64 - DISTANCE_BITS)) - 2
_FARTHEST = (1 << (DISTANCE_BITS - 1)) - 1
PARAMETERS = (PTR, I64, I64, PTR, I64, I64, PTR, PTR)


def inside_function(name: str) -> str:
    """The text of the function in the LLVM dialect."""
    return f"""
llvm.func @"{name}"(%p: {PTR}, %start: i64, %width: i64, %base: {PTR}, %extent: i64, %site: i64, %record: {PTR},
    %dummy: {PTR}) -> {PTR} attributes {{passthrough = ["alwaysinline"]}} {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %address = llvm.ptrtoint %p : {PTR} to i64
  %first = llvm.ptrtoint %base : {PTR} to i64
  %from_base = llvm.sub %address, %first : i64
  %offset = llvm.add %from_base, %start : i64
  %last = llvm.sub %extent, %width : i64
  %is_none = llvm.icmp "eq" %width, %zero : i64
  %is_behind_begin = llvm.icmp "sge" %offset, %zero : i64
  %is_before_end = llvm.icmp "sle" %offset, %last : i64
  %is_between = llvm.and %is_behind_begin, %is_before_end : i1
  %is_inside = llvm.or %is_between, %is_none : i1
  llvm.cond_br %is_inside, ^inside, ^outside
^inside:
  llvm.return %p : {PTR}
^outside:
  %behind = llvm.sub %offset, %last : i64
  %distance = llvm.select %is_behind_begin, %behind, %offset : i1, i64
  %most = llvm.mlir.constant({_FARTHEST} : i64) : i64
  %least = llvm.mlir.constant({-_FARTHEST} : i64) : i64
  %not_more = llvm.intr.smin(%distance, %most) : (i64, i64) -> i64
  %held = llvm.intr.smax(%not_more, %least) : (i64, i64) -> i64
  %mask = llvm.mlir.constant({(1 << DISTANCE_BITS) - 1} : i64) : i64
  %low = llvm.and %held, %mask : i64
  %bits = llvm.mlir.constant({DISTANCE_BITS} : i64) : i64
  %high = llvm.shl %site, %bits : i64
  %word = llvm.or %high, %low : i64
  %old = llvm.cmpxchg %record, %zero, %word monotonic monotonic : {PTR}, i64
  llvm.return %dummy : {PTR}
}}"""
