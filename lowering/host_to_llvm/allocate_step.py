"""Defines the steps that allocate a tensor through torch. steps.py describes their table."""

from __future__ import annotations

from cuesta.huge_pages import HUGE_PAGE, MADV_HUGEPAGE
from cuesta.lowering.host_to_llvm.steps import (
    DECLARATIONS,
    DEVICE,
    I64,
    PTR,
    REFUSED,
    SHAPE,
    STEP_END,
    TABLE,
    at,
    define,
)

#: Name → definition.
HELPERS: dict[str, str] = {
    "cuesta_allocate": define(
        "cuesta_allocate",
        TABLE,
        "i32",
        f"""
  {at("%item", "%table", 1)}{SHAPE}{DEVICE}
  %handle_index = llvm.load %item : {PTR} -> i64
  {at("%handle_slot", "%frame", "%handle_index")}
  {at("%data_index", "%item", 1, I64)}
  {at("%data_slot", "%frame", "%data_index")}
  %made = llvm.call @aoti_torch_empty_strided(
    %rank, %sizes, %strides, %dtype, %device_type, %device_index, %handle_slot)
    : {DECLARATIONS["aoti_torch_empty_strided"]}
  %has_memory = llvm.icmp "eq" %made, %good : i32
  llvm.cond_br %has_memory, ^find, ^end(%made : i32)
^find:
  %handle = llvm.load %handle_slot : {PTR} -> {PTR}
  %found = llvm.call @aoti_torch_get_data_ptr(%handle, %data_slot) : ({PTR}, {PTR}) -> i32
  llvm.br ^end(%found : i32)
^end(%code: i32):
  {REFUSED}{STEP_END}""",
    ),
    # As cuesta_allocate, on a CPU; requests huge pages for the part of the memory that covers whole ones.
    "cuesta_allocate_large": define(
        "cuesta_allocate_large",
        TABLE,
        "i32",
        f"""
  %result = llvm.call @cuesta_allocate(%slots, %frame, %table) : ({PTR}, {PTR}, {PTR}) -> i32
  %made = llvm.icmp "eq" %result, %good : i32
  llvm.cond_br %made, ^measure, ^end
^measure:
  {at("%item", "%table", 1)}
  %handle_index = llvm.load %item : {PTR} -> i64
  {at("%handle", "%frame", "%handle_index", PTR)}
  {at("%data_index", "%item", 1, I64)}
  {at("%data", "%frame", "%data_index", I64)}
  %place = llvm.alloca %one x i64 : (i64) -> {PTR}
  %code = llvm.call @aoti_torch_get_storage_size(%handle, %place) : ({PTR}, {PTR}) -> i32
  %bytes = llvm.load %place : {PTR} -> i64
  %rest = llvm.mlir.constant({HUGE_PAGE - 1} : i64) : i64
  %whole = llvm.mlir.constant({-HUGE_PAGE} : i64) : i64
  %past = llvm.add %data, %rest : i64
  %first = llvm.and %past, %whole : i64
  %behind = llvm.add %data, %bytes : i64
  %last = llvm.and %behind, %whole : i64
  %has_pages = llvm.icmp "ult" %first, %last : i64
  llvm.cond_br %has_pages, ^wish, ^end
^wish:
  %page = llvm.inttoptr %first : i64 to {PTR}
  %pages = llvm.sub %last, %first : i64
  %huge = llvm.mlir.constant({MADV_HUGEPAGE} : i32) : i32
  %refused = llvm.call @madvise(%page, %pages, %huge) : {DECLARATIONS["madvise"]}
  llvm.br ^end
^end:
  llvm.return %result : i32""",
    ),
}
