"""Torch's C shim for the host program: declarations, and the few helpers that its calls share.

A descriptor is an array of i64, [rank, dtype, sizes…, strides…]; codes are 0 for success.
"""

from __future__ import annotations

#: Name → type of every function of torch that the host program may call.
DECLARATIONS: dict[str, str] = {
    "aoti_torch_create_tensor_from_blob": (
        "(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64, i32, i32, i32, !llvm.ptr) -> i32"
    ),
    "aoti_torch_empty_strided": "(i64, !llvm.ptr, !llvm.ptr, i32, i32, i32, !llvm.ptr) -> i32",
    "aoti_torch_delete_tensor_object": "(!llvm.ptr) -> i32",
    "aoti_torch_get_data_ptr": "(!llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_get_dim": "(!llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_get_dtype": "(!llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_get_sizes": "(!llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_get_strides": "(!llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_cpu_mm_out": "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_cpu_bmm_out": "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32",
    "aoti_torch_cpu_addmm_out": "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, f64, f64) -> i32",
    "aoti_torch_cpu_baddbmm_out": "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, f64, f64) -> i32",
    "aoti_torch_call_dispatcher": "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32",
    "torch_new_list_reserve_size": "(i64, !llvm.ptr) -> i32",
    "torch_list_push_back": "(!llvm.ptr, i64) -> i32",
    "torch_new_stable_ivalue": "(!llvm.ptr) -> i32",
    "torch_new_string_handle": "(!llvm.ptr, i64, !llvm.ptr) -> i32",
}

#: Name → definition. A helper may use the ones before it.
HELPERS: dict[str, str] = {
    # Deletes the handles that are not null among `count`, and nulls them.
    "cuesta_delete_all": """
llvm.func @cuesta_delete_all(%handles: !llvm.ptr, %count: i64) attributes {passthrough = ["noinline"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^take, ^end
^take:
  %slot = llvm.getelementptr %handles[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %handle = llvm.load %slot : !llvm.ptr -> !llvm.ptr
  llvm.store %null, %slot : !llvm.ptr, !llvm.ptr
  %next = llvm.add %i, %one : i64
  %held = llvm.icmp "ne" %handle, %null : !llvm.ptr
  llvm.cond_br %held, ^delete, ^loop(%next : i64)
^delete:
  %code = llvm.call @aoti_torch_delete_tensor_object(%handle) : (!llvm.ptr) -> i32
  llvm.br ^loop(%next : i64)
^end:
  llvm.return
}""",
    # Turns `count` data addresses into tensor handles, in place; descriptors stand one behind another.
    "cuesta_wrap_all": """
llvm.func @cuesta_wrap_all(%words: !llvm.ptr, %descriptors: !llvm.ptr, %count: i64) -> i32
    attributes {passthrough = ["noinline"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %cpu = llvm.mlir.constant(0 : i32) : i32
  llvm.br ^loop(%zero, %descriptors : i64, !llvm.ptr)
^loop(%i: i64, %descriptor: !llvm.ptr):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^wrap, ^end(%cpu : i32)
^wrap:
  %slot = llvm.getelementptr %words[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %data = llvm.load %slot : !llvm.ptr -> !llvm.ptr
  %rank = llvm.load %descriptor : !llvm.ptr -> i64
  %dtype_slot = llvm.getelementptr %descriptor[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %dtype = llvm.load %dtype_slot : !llvm.ptr -> i32
  %sizes = llvm.getelementptr %descriptor[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %strides = llvm.getelementptr %sizes[%rank] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %next_descriptor = llvm.getelementptr %strides[%rank] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %code = llvm.call @aoti_torch_create_tensor_from_blob(
      %data, %rank, %sizes, %strides, %zero, %dtype, %cpu, %cpu, %slot)
    : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64, i32, i32, i32, !llvm.ptr) -> i32
  %next = llvm.add %i, %one : i64
  %good = llvm.icmp "eq" %code, %cpu : i32
  llvm.cond_br %good, ^loop(%next, %next_descriptor : i64, !llvm.ptr), ^undo
^undo:
  llvm.call @cuesta_delete_all(%words, %i) : (!llvm.ptr, i64) -> ()
  llvm.br ^end(%code : i32)
^end(%result: i32):
  llvm.return %result : i32
}""",
    # Allocates a tensor; its handle and its data address go to the two places.
    "cuesta_allocate": """
llvm.func @cuesta_allocate(%descriptor: !llvm.ptr, %handle_slot: !llvm.ptr, %data_slot: !llvm.ptr) -> i32
    attributes {passthrough = ["noinline"]} {
  %cpu = llvm.mlir.constant(0 : i32) : i32
  %rank = llvm.load %descriptor : !llvm.ptr -> i64
  %dtype_slot = llvm.getelementptr %descriptor[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %dtype = llvm.load %dtype_slot : !llvm.ptr -> i32
  %sizes = llvm.getelementptr %descriptor[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %strides = llvm.getelementptr %sizes[%rank] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %code = llvm.call @aoti_torch_empty_strided(%rank, %sizes, %strides, %dtype, %cpu, %cpu, %handle_slot)
    : (i64, !llvm.ptr, !llvm.ptr, i32, i32, i32, !llvm.ptr) -> i32
  %good = llvm.icmp "eq" %code, %cpu : i32
  llvm.cond_br %good, ^made, ^end(%code : i32)
^made:
  %handle = llvm.load %handle_slot : !llvm.ptr -> !llvm.ptr
  %last = llvm.call @aoti_torch_get_data_ptr(%handle, %data_slot) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.br ^end(%last : i32)
^end(%result: i32):
  llvm.return %result : i32
}""",
    # Whether sizes (and, where the size is not 1, strides) of a tensor are those of the descriptor; then its
    # data address goes to its place. 1 where they are not. A tensor without elements has no strides to differ.
    "cuesta_adopt": """
llvm.func @cuesta_adopt(%descriptor: !llvm.ptr, %handle_slot: !llvm.ptr, %data_slot: !llvm.ptr) -> i32
    attributes {passthrough = ["noinline"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %bad = llvm.mlir.constant(1 : i32) : i32
  %handle = llvm.load %handle_slot : !llvm.ptr -> !llvm.ptr
  %rank = llvm.load %descriptor : !llvm.ptr -> i64
  %dtype_slot = llvm.getelementptr %descriptor[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %dtype = llvm.load %dtype_slot : !llvm.ptr -> i32
  %sizes = llvm.getelementptr %descriptor[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %strides = llvm.getelementptr %sizes[%rank] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %found = llvm.alloca %one x i64 : (i64) -> !llvm.ptr
  %c0 = llvm.call @aoti_torch_get_dim(%handle, %found) : (!llvm.ptr, !llvm.ptr) -> i32
  %actual_rank = llvm.load %found : !llvm.ptr -> i64
  %c1 = llvm.call @aoti_torch_get_dtype(%handle, %found) : (!llvm.ptr, !llvm.ptr) -> i32
  %actual_dtype = llvm.load %found : !llvm.ptr -> i32
  %c2 = llvm.call @aoti_torch_get_sizes(%handle, %found) : (!llvm.ptr, !llvm.ptr) -> i32
  %actual_sizes = llvm.load %found : !llvm.ptr -> !llvm.ptr
  %c3 = llvm.call @aoti_torch_get_strides(%handle, %found) : (!llvm.ptr, !llvm.ptr) -> i32
  %actual_strides = llvm.load %found : !llvm.ptr -> !llvm.ptr
  %same_rank = llvm.icmp "eq" %rank, %actual_rank : i64
  %same_dtype = llvm.icmp "eq" %dtype, %actual_dtype : i32
  %comparable = llvm.and %same_rank, %same_dtype : i1
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  llvm.cond_br %comparable, ^loop(%zero, %true, %false : i64, i1, i1), ^end(%bad : i32)
^loop(%i: i64, %same_strides: i1, %empty: i1):
  %more = llvm.icmp "ult" %i, %rank : i64
  llvm.cond_br %more, ^compare, ^decide
^compare:
  %size_slot = llvm.getelementptr %sizes[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %size = llvm.load %size_slot : !llvm.ptr -> i64
  %actual_size_slot = llvm.getelementptr %actual_sizes[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %actual_size = llvm.load %actual_size_slot : !llvm.ptr -> i64
  %stride_slot = llvm.getelementptr %strides[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %stride = llvm.load %stride_slot : !llvm.ptr -> i64
  %actual_stride_slot = llvm.getelementptr %actual_strides[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %actual_stride = llvm.load %actual_stride_slot : !llvm.ptr -> i64
  %same_stride = llvm.icmp "eq" %stride, %actual_stride : i64
  %is_one = llvm.icmp "eq" %size, %one : i64
  %fits = llvm.or %same_stride, %is_one : i1
  %strides_now = llvm.and %same_strides, %fits : i1
  %is_zero = llvm.icmp "eq" %size, %zero : i64
  %empty_now = llvm.or %empty, %is_zero : i1
  %next = llvm.add %i, %one : i64
  %same_size = llvm.icmp "eq" %size, %actual_size : i64
  llvm.cond_br %same_size, ^loop(%next, %strides_now, %empty_now : i64, i1, i1), ^end(%bad : i32)
^decide:
  %same = llvm.or %same_strides, %empty : i1
  llvm.cond_br %same, ^take, ^end(%bad : i32)
^take:
  %code = llvm.call @aoti_torch_get_data_ptr(%handle, %data_slot) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.br ^end(%code : i32)
^end(%result: i32):
  llvm.return %result : i32
}""",
    # A list of `count` words, to be consumed by the dispatcher.
    "cuesta_list": """
llvm.func @cuesta_list(%words: !llvm.ptr, %count: i64) -> i64 attributes {passthrough = ["noinline"]} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %made = llvm.alloca %one x !llvm.ptr : (i64) -> !llvm.ptr
  %c0 = llvm.call @torch_new_list_reserve_size(%count, %made) : (i64, !llvm.ptr) -> i32
  %list = llvm.load %made : !llvm.ptr -> !llvm.ptr
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^push, ^end
^push:
  %slot = llvm.getelementptr %words[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = llvm.load %slot : !llvm.ptr -> i64
  %c1 = llvm.call @torch_list_push_back(%list, %word) : (!llvm.ptr, i64) -> i32
  %next = llvm.add %i, %one : i64
  llvm.br ^loop(%next : i64)
^end:
  %result = llvm.ptrtoint %list : !llvm.ptr to i64
  llvm.return %result : i64
}""",
    # What an optional that is not None holds, to be consumed by the dispatcher.
    "cuesta_present": """
llvm.func @cuesta_present(%word: i64) -> i64 attributes {passthrough = ["noinline"]} {
  %one = llvm.mlir.constant(1 : i64) : i64
  %made = llvm.alloca %one x !llvm.ptr : (i64) -> !llvm.ptr
  %code = llvm.call @torch_new_stable_ivalue(%made) : (!llvm.ptr) -> i32
  %box = llvm.load %made : !llvm.ptr -> !llvm.ptr
  llvm.store %word, %box : i64, !llvm.ptr
  %result = llvm.ptrtoint %box : !llvm.ptr to i64
  llvm.return %result : i64
}""",
    # A string, to be consumed by the dispatcher.
    "cuesta_text": """
llvm.func @cuesta_text(%bytes: !llvm.ptr, %count: i64) -> i64 attributes {passthrough = ["noinline"]} {
  %one = llvm.mlir.constant(1 : i64) : i64
  %made = llvm.alloca %one x !llvm.ptr : (i64) -> !llvm.ptr
  %code = llvm.call @torch_new_string_handle(%bytes, %count, %made) : (!llvm.ptr, i64, !llvm.ptr) -> i32
  %string = llvm.load %made : !llvm.ptr -> !llvm.ptr
  %result = llvm.ptrtoint %string : !llvm.ptr to i64
  llvm.return %result : i64
}""",
}
