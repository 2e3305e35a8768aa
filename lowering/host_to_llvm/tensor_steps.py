"""Defines steps on tensors: typed entries, packed products, calls through Python, checks (tables: steps.py)."""

from __future__ import annotations

from cuesta.lowering.host_to_llvm.argument_step import OTHER_LAYOUT
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


def _for_all(name: str, helper: str, undo: str = "") -> str:
    """The function that calls `helper` for `count` consecutive tensors of a table. If that fails for tensor %i, the
    function runs `undo` and returns the code."""
    return define(
        name,
        f"%slots: {PTR}, %frame: {PTR}, %first: {PTR}, %count: i64, %handles: {PTR}",
        "i32",
        f"""
  llvm.br ^loop(%zero, %first : i64, {PTR})
^loop(%i: i64, %item: {PTR}):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^call, ^end(%good : i32)
^call:
  {at("%handle", "%handles", "%i")}
  %code = llvm.call @{helper}(%slots, %frame, %item, %handle) : ({PTR}, {PTR}, {PTR}, {PTR}) -> i32
  %behind = llvm.call @cuesta_behind(%item) : ({PTR}) -> {PTR}
  %next = llvm.add %i, %one : i64
  %made = llvm.icmp "eq" %code, %good : i32
  llvm.cond_br %made, ^loop(%next, %behind : i64, {PTR}), ^failed
^failed:
  {undo}
  llvm.br ^end(%code : i32)
^end(%result: i32):
  llvm.return %result : i32""",
    )


#: Name → definition.
HELPERS: dict[str, str] = {
    # Deletes those of `count` handles that are not null, and sets them to null.
    "cuesta_delete": define(
        "cuesta_delete",
        f"%handles: {PTR}, %count: i64",
        "",
        f"""
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^take, ^end
^take:
  {at("%slot", "%handles", "%i")}
  %handle = llvm.load %slot : {PTR} -> {PTR}
  llvm.store %null, %slot : {PTR}, {PTR}
  %next = llvm.add %i, %one : i64
  %held = llvm.icmp "ne" %handle, %null : {PTR}
  llvm.cond_br %held, ^delete, ^loop(%next : i64)
^delete:
  %code = llvm.call @aoti_torch_delete_tensor_object(%handle) : ({PTR}) -> i32
  llvm.br ^loop(%next : i64)
^end:
  llvm.return""",
    ),
    # The address of the word after a tensor or a result.
    "cuesta_behind": define(
        "cuesta_behind",
        f"%item: {PTR}",
        PTR,
        f"""{SHAPE}
  {at("%behind", "%strides", "%rank")}
  llvm.return %behind : {PTR}""",
    ),
    # The address given by the first two words of a tensor, root and offset.
    "cuesta_address": define(
        "cuesta_address",
        f"%slots: {PTR}, %frame: {PTR}, %item: {PTR}",
        PTR,
        f"""
  %root = llvm.load %item : {PTR} -> i64
  {at("%offset", "%item", 1, I64)}
  %framed = llvm.icmp "slt" %root, %zero : i64
  %in_frame = llvm.sub %minus_one, %root : i64
  %index = llvm.select %framed, %in_frame, %root : i1, i64
  %array = llvm.select %framed, %frame, %slots : i1, {PTR}
  {at("%base", "%array", "%index", PTR)}
  %address = llvm.getelementptr %base[%offset] : ({PTR}, i64) -> {PTR}, i8
  llvm.return %address : {PTR}""",
    ),
    # A new handle to a tensor that wraps memory of the program.
    "cuesta_wrap": define(
        "cuesta_wrap",
        f"%slots: {PTR}, %frame: {PTR}, %item: {PTR}, %handle: {PTR}",
        "i32",
        f"""{SHAPE}{DEVICE}
  %data = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %code = llvm.call @aoti_torch_create_tensor_from_blob(
    %data, %rank, %sizes, %strides, %zero, %dtype, %device_type, %device_index, %handle)
    : {DECLARATIONS["aoti_torch_create_tensor_from_blob"]}
  llvm.return %code : i32""",
    ),
    # The handle of a kept tensor, which stays in the slots: that of an earlier call if the memory is at the same
    # address as then, else a new one.
    "cuesta_borrow": define(
        "cuesta_borrow",
        f"%slots: {PTR}, %frame: {PTR}, %item: {PTR}, %handle: {PTR}",
        "i32",
        f"""
  {at("%kept", "%item", 2, I64)}
  {at("%pair", "%slots", "%kept")}
  {at("%place", "%pair", 1)}
  %before = llvm.load %pair : {PTR} -> {PTR}
  %held = llvm.load %place : {PTR} -> {PTR}
  %data = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %same = llvm.icmp "eq" %before, %data : {PTR}
  %there = llvm.icmp "ne" %held, %null : {PTR}
  %good_still = llvm.and %same, %there : i1
  llvm.cond_br %good_still, ^take, ^make
^make:
  llvm.call @cuesta_delete(%place, %one) : ({PTR}, i64) -> ()
  %code = llvm.call @cuesta_wrap(%slots, %frame, %item, %place) : ({PTR}, {PTR}, {PTR}, {PTR}) -> i32
  %made = llvm.icmp "eq" %code, %good : i32
  llvm.cond_br %made, ^note, ^end(%code : i32)
^note:
  llvm.store %data, %pair : {PTR}, {PTR}
  llvm.br ^take
^take:
  %now = llvm.load %place : {PTR} -> {PTR}
  llvm.store %now, %handle : {PTR}, {PTR}
  llvm.br ^end(%good : i32)
^end(%result: i32):
  llvm.return %result : i32""",
    ),
    # Borrowed handles to `count` tensors.
    "cuesta_borrow_all": _for_all("cuesta_borrow_all", "cuesta_borrow"),
    # New handles to `count` tensors. If one cannot be made, the others are deleted.
    "cuesta_wrap_all": _for_all(
        "cuesta_wrap_all", "cuesta_wrap", f"llvm.call @cuesta_delete(%handles, %i) : ({PTR}, i64) -> ()"
    ),
    # Checks a tensor that ATen returned, whose handle is in the frame, against its item, and stores the data address in
    # the frame. Not 0 if the tensor does not fit. Some of torch's fake kernels predict other strides than the real
    # kernels return, and a real kernel may return a lazily conjugated tensor: such a tensor is copied into the layout
    # that the program was compiled for.
    "cuesta_adopt": define(
        "cuesta_adopt",
        f"%frame: {PTR}, %item: {PTR}",
        "i32",
        f"""{SHAPE}{DEVICE}
  %other_layout = llvm.mlir.constant({OTHER_LAYOUT} : i32) : i32
  %handle_index = llvm.load %item : {PTR} -> i64
  {at("%handle", "%frame", "%handle_index", PTR)}
  {at("%data_index", "%item", 1, I64)}
  {at("%data_slot", "%frame", "%data_index")}
  %code = llvm.call @cuesta_fits(%handle, %item, %data_slot) : ({PTR}, {PTR}, {PTR}) -> i32
  %can_copy = llvm.icmp "eq" %code, %other_layout : i32
  llvm.cond_br %can_copy, ^lay_out, ^end(%code : i32)
^lay_out:
  %place = llvm.alloca %one x i64 : (i64) -> {PTR}
  %made = llvm.call @aoti_torch_empty_strided(
    %rank, %sizes, %strides, %dtype, %device_type, %device_index, %place)
    : {DECLARATIONS["aoti_torch_empty_strided"]}
  %has_memory = llvm.icmp "eq" %made, %good : i32
  llvm.cond_br %has_memory, ^copy, ^end(%made : i32)
^copy:
  %fresh = llvm.load %place : {PTR} -> {PTR}
  %blocking = llvm.mlir.constant(0 : i32) : i32
  %copied = llvm.call @aoti_torch_copy_(%fresh, %handle, %blocking) : ({PTR}, {PTR}, i32) -> i32
  llvm.store %fresh, %handle_address : {PTR}, {PTR}
  %gone = llvm.call @aoti_torch_delete_tensor_object(%handle) : ({PTR}) -> i32
  %is_copied = llvm.icmp "eq" %copied, %good : i32
  llvm.cond_br %is_copied, ^take, ^end(%copied : i32)
^take:
  %taken = llvm.call @aoti_torch_get_data_ptr(%fresh, %data_slot) : ({PTR}, {PTR}) -> i32
  llvm.br ^end(%taken : i32)
^end(%result: i32):
  llvm.return %result : i32""",
    ),
    # Adopts those of `count` results that are not dropped.
    "cuesta_adopt_all": define(
        "cuesta_adopt_all",
        f"%frame: {PTR}, %first: {PTR}, %count: i64",
        "i32",
        f"""
  llvm.br ^loop(%zero, %first : i64, {PTR})
^loop(%i: i64, %item: {PTR}):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^look, ^end(%good : i32)
^look:
  %behind = llvm.call @cuesta_behind(%item) : ({PTR}) -> {PTR}
  %next = llvm.add %i, %one : i64
  %handle_index = llvm.load %item : {PTR} -> i64
  %kept = llvm.icmp "sge" %handle_index, %zero : i64
  llvm.cond_br %kept, ^adopt, ^loop(%next, %behind : i64, {PTR})
^adopt:
  %code = llvm.call @cuesta_adopt(%frame, %item) : ({PTR}, {PTR}) -> i32
  %fits = llvm.icmp "eq" %code, %good : i32
  llvm.cond_br %fits, ^loop(%next, %behind : i64, {PTR}), ^end(%code : i32)
^end(%result: i32):
  llvm.return %result : i32""",
    ),
    # Fails if the byte is not 0.
    "cuesta_check": define(
        "cuesta_check",
        TABLE,
        "i32",
        f"""
  {at("%item", "%table", 1)}
  %address = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %byte = llvm.load %address : {PTR} -> i8
  %code = llvm.zext %byte : i8 to i32
  {REFUSED}{STEP_END}""",
    ),
    # A row-major matrix times a matrix that MKL has packed. CBLAS: 101 is row-major, 111 not transposed, 151 packed.
    "cuesta_packed_mm": define(
        "cuesta_packed_mm",
        TABLE,
        "i32",
        f"""
  {at("%left", "%table", 1)}
  %right = llvm.call @cuesta_behind(%left) : ({PTR}) -> {PTR}
  %product = llvm.call @cuesta_behind(%right) : ({PTR}) -> {PTR}
  %a = llvm.call @cuesta_address(%slots, %frame, %left) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %b = llvm.call @cuesta_address(%slots, %frame, %right) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %c = llvm.call @cuesta_address(%slots, %frame, %product) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  {at("%m", "%left", 7, "i32")}
  {at("%k", "%left", 8, "i32")}
  {at("%n", "%product", 8, "i32")}
  %row_major = llvm.mlir.constant(101 : i32) : i32
  %as_it_is = llvm.mlir.constant(111 : i32) : i32
  %packed = llvm.mlir.constant(151 : i32) : i32
  %nothing = llvm.mlir.constant(0.0 : f32) : f32
  llvm.call @cblas_sgemm_compute(
    %row_major, %as_it_is, %packed, %m, %n, %k, %a, %k, %b, %n, %nothing, %c, %n)
    : {DECLARATIONS["cblas_sgemm_compute"]}
  llvm.return %good : i32""",
    ),
    # Python takes ownership of the operands' handles, even if the call fails.
    "cuesta_python": define(
        "cuesta_python",
        TABLE,
        "i32",
        f"""
  {at("%call", "%table", 1, I64)}
  {at("%callback_index", "%table", 2, I64)}
  {at("%operands", "%table", 3, I64)}
  {at("%results", "%table", 4, I64)}
  {at("%handle_index", "%table", 5, I64)}
  {at("%results_at", "%table", 6, I64)}
  {at("%first", "%table", 7)}
  {at("%callback", "%slots", "%callback_index", PTR)}
  {at("%made", "%frame", "%handle_index")}
  {at("%first_result", "%table", "%results_at")}
  %positive = llvm.mlir.constant(1 : i32) : i32
  %negative = llvm.mlir.constant(-1 : i32) : i32
  %handles = llvm.alloca %operands x i64 : (i64) -> {PTR}
  %wrapped = llvm.call @cuesta_wrap_all(%slots, %frame, %first, %operands, %handles)
    : ({PTR}, {PTR}, {PTR}, i64, {PTR}) -> i32
  %ready = llvm.icmp "eq" %wrapped, %good : i32
  llvm.cond_br %ready, ^call, ^end(%wrapped, %positive : i32, i32)
^call:
  %called = llvm.call %callback(%call, %handles, %made) : {PTR}, (i64, {PTR}, {PTR}) -> i32
  %returned = llvm.icmp "eq" %called, %good : i32
  llvm.cond_br %returned, ^adopt, ^end(%called, %positive : i32, i32)
^adopt:
  %adopted = llvm.call @cuesta_adopt_all(%frame, %first_result, %results) : ({PTR}, {PTR}, i64) -> i32
  llvm.br ^end(%adopted, %negative : i32, i32)
^end(%code: i32, %sign: i32):{STEP_END}""",
    ),
}


def out_helper(name: str, entry: str, tensors: int, scalars: int) -> str:
    """The step that calls a typed entry with the output (the last tensor), the other tensors and the scalars."""
    handles = [tensors - 1, *range(tensors - 1)]
    arguments = ", ".join([f"%h{i}" for i in handles] + [f"%s{i}" for i in range(scalars)])
    loads = "\n  ".join(at(f"%h{i}", "%handles", i, PTR) for i in handles)
    numbers = "\n  ".join(at(f"%s{i}", "%table", 1 + i, "f64") for i in range(scalars))
    return define(
        name,
        TABLE,
        "i32",
        f"""
  {at("%first", "%table", 1 + scalars)}
  %count = llvm.mlir.constant({tensors} : i64) : i64
  %handles = llvm.alloca %count x i64 : (i64) -> {PTR}
  %borrowed = llvm.call @cuesta_borrow_all(%slots, %frame, %first, %count, %handles)
    : ({PTR}, {PTR}, {PTR}, i64, {PTR}) -> i32
  %ready = llvm.icmp "eq" %borrowed, %good : i32
  llvm.cond_br %ready, ^call, ^end(%borrowed : i32)
^call:
  {loads}
  {numbers}
  %called = llvm.call @{entry}({arguments}) : {DECLARATIONS[entry]}
  llvm.br ^end(%called : i32)
^end(%code: i32):
  {REFUSED}{STEP_END}""",
    )
