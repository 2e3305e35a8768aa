"""Declares what all steps of the host program share: the format of their tables, and the external functions.

A step is a function `f(slots, frame, table) -> i32`, driven by a constant table, so that the entry is one short call
for each step and compiles fast. A step returns 0 if it succeeds; its number, the table's first word, if torch refused;
or minus its number if a result differs from that of the traced graph. Tables are i64 words:

    tensor    root, offset in bytes, kept, shape                root n: slots[n]; -1 - n: frame[n]
              kept: the first of two slots, the address and the handle of a kept tensor (layout.py); -1: none
    result    index of the handle in the frame (-1: dropped; -2: a number, no tensor), index of the data, 0, shape
    shape     rank, dtype, device's type, device's index, sizes…, strides…
    word      0, bits | 1, tensor | 2, word (an optional) | 3, count, words… (a list) | 4, string |
              5 (an undefined tensor) | 6, root and offset in bytes of a handle (a new handle of its tensor is made)
    string    count of bytes, then the text, padded with zeros

    allocate  step, result                                               allocate_large too
    out       step, scalars…, tensors…                                   the last tensor is written
    packed_mm step, left factor, right factor as MKL packed it, product
    python    step, call, callback's slot, count of operands, count of results, first result's handle,
              index of results…, tensors…, results…
    dispatch  step, count of words, count of results, indices of name, overload, words… and results…, then these four
    typed     as dispatch
    check     step, root, offset
    bounds    step, root and offset of the record, slot that receives the record
    launch    on CPU: counts of buffers, of sizes, of tiles, of threads that have enough work, slot of the thread count,
              root and offset of each buffer, sizes…
              on GPU: step, kernel, counts of buffers and of sizes, slot of the stream, programs along x (-1: the
              kernel's own number), root and offset of each buffer, sizes…
"""

from __future__ import annotations

from cuesta.runtime.elf.object_layout import SYMBOL as OBJECTS

PTR, I64 = "!llvm.ptr", "i64"

# Typed entries that write into a given tensor: the types of their parameters after it and the first two operands.
_TYPED = {"mm": "", "bmm": "", "addmm": f", {PTR}, f64, f64", "baddbmm": f", {PTR}, f64, f64"}

#: Name → type of each external function that the host program may call.
DECLARATIONS: dict[str, str] = {
    "aoti_torch_create_tensor_from_blob": f"({PTR}, {I64}, {PTR}, {PTR}, {I64}, i32, i32, i32, {PTR}) -> i32",
    "aoti_torch_empty_strided": f"({I64}, {PTR}, {PTR}, i32, i32, i32, {PTR}) -> i32",
    "aoti_torch_delete_tensor_object": f"({PTR}) -> i32",
    "aoti_torch_new_tensor_handle": f"({PTR}, {PTR}) -> i32",
    "aoti_torch_copy_": f"({PTR}, {PTR}, i32) -> i32",
    "aoti_torch_get_data_ptr": f"({PTR}, {PTR}) -> i32",
    **{
        f"aoti_torch_get_{fact}": f"({PTR}, {PTR}) -> i32"
        for fact in (
            *("dim", "dtype", "sizes", "strides", "device_type", "device_index"),
            *("storage_size", "storage_offset"),
        )
    },
    "aoti_torch_dtype_element_size": f"(i32) -> {I64}",
    # at::native::is_conj, is_neg, _is_zerotensor and is_inference, and c10::InferenceMode::is_enabled: torch's C shim
    # has no such functions.
    "_ZN2at6native12is_inferenceERKNS_6TensorE": f"({PTR}) -> i8",
    "_ZN3c1013InferenceMode10is_enabledEv": "() -> i8",
    "_ZN2at6native7is_conjERKNS_6TensorE": f"({PTR}) -> i8",
    "_ZN2at6native6is_negERKNS_6TensorE": f"({PTR}) -> i8",
    "_ZN2at6native14_is_zerotensorERKNS_6TensorE": f"({PTR}) -> i8",
    **{
        f"aoti_torch_{device}_{name}_out": f"({PTR}, {PTR}, {PTR}{scalars}) -> i32"
        for device in ("cpu", "cuda", "xpu")
        for name, scalars in _TYPED.items()
    },
    "aoti_torch_new_uninitialized_tensor": f"({PTR}) -> i32",
    "aoti_torch_call_dispatcher": f"({PTR}, {PTR}, {PTR}) -> i32",
    "torch_new_list_reserve_size": f"({I64}, {PTR}) -> i32",
    "torch_list_push_back": f"({PTR}, {I64}) -> i32",
    "torch_new_stable_ivalue": f"({PTR}) -> i32",
    "torch_new_string_handle": f"({PTR}, {I64}, {PTR}) -> i32",
    "torch_delete_stable_ivalue": f"({PTR}) -> i32",
    "cblas_sgemm_compute": f"(i32, i32, i32, i32, i32, i32, {PTR}, i32, {PTR}, i32, f32, {PTR}, i32) -> ()",
    "madvise": f"({PTR}, {I64}, i32) -> i32",
    "_Znwm": f"({I64}) -> {PTR}",  # C++'s operators new and delete
    "_ZdlPv": f"({PTR})",
    "GOMP_parallel": f"({PTR}, {PTR}, i32, i32) -> ()",
    "omp_get_thread_num": "() -> i32",
    "omp_get_num_threads": "() -> i32",
    # CUDA's driver; where kernels are interpreted, the runtime substitutes functions of its own.
    "cuLaunchKernelEx": f"({PTR}, {PTR}, {PTR}, {PTR}) -> i32",
    "cuCtxSetCurrent": f"({PTR}) -> i32",
    # Not functions but tables that the runtime makes: a program's kernels, and field offsets in Python's objects.
    "cuesta_kernels": "()",
    OBJECTS: "()",
}

#: For functions that mostly call others: optimising the steps doubles their compile time, and saves 0.03 µs a call.
FAST_TO_COMPILE = 'passthrough = ["noinline", "optnone"]'

# Constants that every function below may use.
_CONSTANTS = """
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %minus_one = llvm.mlir.constant(-1 : i64) : i64
  %good = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr"""


def define(name: str, arguments: str, result: str, body: str) -> str:
    returns = f" -> {result}" if result else ""
    return f"llvm.func @{name}({arguments}){returns} attributes {{{FAST_TO_COMPILE}}} {{{_CONSTANTS}\n{body}\n}}"


def at(result: str, array: str, index: int | str, load: str = "") -> str:
    """Text that computes the address of a word of an array, or loads its value if `load` names a type."""
    step = f"{array}[{index}] : ({PTR}{', i64' if isinstance(index, str) else ''}) -> {PTR}, i64"
    if not load:
        return f"{result} = llvm.getelementptr {step}"
    return f"{result}_address = llvm.getelementptr {step}\n  {result} = llvm.load {result}_address : {PTR} -> {load}"


TABLE = f"%slots: {PTR}, %frame: {PTR}, %table: {PTR}"

# The words of a tensor or a result from its rank on.
SHAPE = f"""
  {at("%rank", "%item", 3, I64)}
  {at("%dtype", "%item", 4, "i32")}
  {at("%sizes", "%item", 7)}
  {at("%strides", "%sizes", "%rank")}"""
DEVICE = f"""
  {at("%device_type", "%item", 5, "i32")}
  {at("%device_index", "%item", 6, "i32")}"""

# Ends a step: returns 0 if %code is 0, else the step's number from the table, times %sign.
STEP_END = f"""
  %passed = llvm.icmp "eq" %code, %good : i32
  %number = llvm.load %table : {PTR} -> i32
  %signed = llvm.mul %number, %sign : i32
  %result = llvm.select %passed, %good, %signed : i1, i32
  llvm.return %result : i32"""
REFUSED = "%sign = llvm.mlir.constant(1 : i32) : i32"
