"""Defines the first step of a program: it checks the arguments, and stores their addresses in the slots.

Dynamo's guards check most of what a program relies on, but not all of it (a gradient that is conjugated lazily, a
storage that was resized, tensors that a hook for saved tensors returns), and a program may be called without Dynamo.
So this step reads each argument's own C++ object: dtype, device, sizes, strides, lazy bits, alignment, and whether the
storage is large enough for the last element. If an argument does not fit, nothing has run yet, and
cuesta/runtime/arguments.py makes a copy that fits, or raises an error.

The same function, `cuesta_fits`, checks the results of ATen's ops.

    arguments    count, slot of the list's address, an item for each argument
    item         index in the list (-1 - n: the handle in slot n), 0, mask of the address bits that must be 0, with
                 WRITTEN if the program writes the argument, shape (steps.py)

An inference tensor must not be written outside of inference mode; eager raises an error too.
"""

from __future__ import annotations

from cuesta.lowering.host_to_llvm.steps import DECLARATIONS, DEVICE, I64, PTR, SHAPE, at, define
from cuesta.runtime.elf.object_layout import SYMBOL

#: What `cuesta_fits` returns.
FITS, OTHER, OTHER_LAYOUT = 0, 1, 2
#: The bit of an item's third word that says that the program writes the argument; the bits below are the mask.
WRITTEN = 1 << 8

_FACTS = ("dim", "dtype", "device_type", "device_index", "sizes", "strides", "storage_size", "storage_offset")
_LAZY = {
    "conjugated": "_ZN2at6native7is_conjERKNS_6TensorE",
    "negated": "_ZN2at6native6is_negERKNS_6TensorE",
    "zero_tensor": "_ZN2at6native14_is_zerotensorERKNS_6TensorE",
}
_IS_INFERENCE = "_ZN2at6native12is_inferenceERKNS_6TensorE"
_IN_INFERENCE_MODE = "_ZN3c1013InferenceMode10is_enabledEv"


def _ask_facts() -> str:
    """Text that stores each fact of a tensor in a word of its own; %asked is 0 if torch answered every query."""
    lines = []
    for i, fact in enumerate(_FACTS):
        call = f"llvm.call @aoti_torch_get_{fact}(%handle, %{fact}_at) : ({PTR}, {PTR}) -> i32"
        lines += [at(f"%{fact}_at", "%facts", i), f"%asked_{i} = {call}"]
        if i:
            before = "%asked_0" if i == 1 else f"%failed_{i - 1}"
            lines.append(f"%failed_{i} = llvm.or {before}, %asked_{i} : i32")
    return "\n  ".join([*lines, f"%asked = llvm.or %failed_{len(_FACTS) - 1}, %good : i32"])


def _ask_lazy() -> str:
    """Text that computes %lazy, which is 0 for a tensor whose memory holds its values."""
    lines = []
    for name, symbol in _LAZY.items():
        lines.append(f"%{name} = llvm.call @{symbol}(%handle) : {DECLARATIONS[symbol]}")
    first, second, third = (f"%{name}" for name in _LAZY)
    lines.append(f"%lazy_view = llvm.or {first}, {second} : i8")
    lines.append(f"%lazy = llvm.or %lazy_view, {third} : i8")
    return "\n  ".join(lines)


#: Name → definition.
HELPERS: dict[str, str] = {
    # Compares the tensor of a handle with its item. FITS: they agree, and the data address is in `place`.
    # OTHER_LAYOUT: a copy would fit, because only strides, alignment or lazy bits differ. OTHER: anything else. A dim
    # of size 1 may have any stride, and so may all dims of a tensor without elements.
    "cuesta_fits": define(
        "cuesta_fits",
        f"%handle: {PTR}, %item: {PTR}, %place: {PTR}",
        "i32",
        f"""{SHAPE}{DEVICE}
  %other = llvm.mlir.constant({OTHER} : i32) : i32
  %other_layout = llvm.mlir.constant({OTHER_LAYOUT} : i32) : i32
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  %no_byte = llvm.mlir.constant(0 : i8) : i8
  %count = llvm.mlir.constant({len(_FACTS)} : i64) : i64
  %facts = llvm.alloca %count x i64 : (i64) -> {PTR}
  {_ask_facts()}
  %actual_rank = llvm.load %dim_at : {PTR} -> i64
  %actual_dtype = llvm.load %dtype_at : {PTR} -> i32
  %actual_type = llvm.load %device_type_at : {PTR} -> i32
  %actual_index = llvm.load %device_index_at : {PTR} -> i32
  %actual_sizes = llvm.load %sizes_at : {PTR} -> {PTR}
  %actual_strides = llvm.load %strides_at : {PTR} -> {PTR}
  %has_facts = llvm.icmp "eq" %asked, %good : i32
  %same_rank = llvm.icmp "eq" %rank, %actual_rank : i64
  %same_dtype = llvm.icmp "eq" %dtype, %actual_dtype : i32
  %same_type = llvm.icmp "eq" %device_type, %actual_type : i32
  %on_cpu = llvm.icmp "eq" %device_type, %good : i32
  %index_fits = llvm.icmp "eq" %device_index, %actual_index : i32
  %same_index = llvm.or %on_cpu, %index_fits : i1
  %fits_0 = llvm.and %has_facts, %same_rank : i1
  %fits_1 = llvm.and %fits_0, %same_dtype : i1
  %fits_2 = llvm.and %fits_1, %same_type : i1
  %comparable = llvm.and %fits_2, %same_index : i1
  llvm.cond_br %comparable, ^loop(%zero, %true, %false, %one : i64, i1, i1, i64), ^end(%other : i32)
^loop(%i: i64, %same_strides: i1, %empty: i1, %reach: i64):
  %more = llvm.icmp "ult" %i, %rank : i64
  llvm.cond_br %more, ^compare, ^measure
^compare:
  {at("%size", "%sizes", "%i", I64)}
  {at("%actual_size", "%actual_sizes", "%i", I64)}
  {at("%stride", "%strides", "%i", I64)}
  {at("%actual_stride", "%actual_strides", "%i", I64)}
  %same_stride = llvm.icmp "eq" %stride, %actual_stride : i64
  %is_one = llvm.icmp "eq" %size, %one : i64
  %fits = llvm.or %same_stride, %is_one : i1
  %strides_now = llvm.and %same_strides, %fits : i1
  %is_zero = llvm.icmp "eq" %size, %zero : i64
  %empty_now = llvm.or %empty, %is_zero : i1
  %steps = llvm.sub %actual_size, %one : i64
  %stepped = llvm.mul %steps, %actual_stride : i64
  %reach_now = llvm.add %reach, %stepped : i64
  %next = llvm.add %i, %one : i64
  %same_size = llvm.icmp "eq" %size, %actual_size : i64
  llvm.cond_br %same_size, ^loop(%next, %strides_now, %empty_now, %reach_now : i64, i1, i1, i64), ^end(%other : i32)
^measure:
  %bytes = llvm.load %storage_size_at : {PTR} -> i64
  %offset = llvm.load %storage_offset_at : {PTR} -> i64
  %element = llvm.call @aoti_torch_dtype_element_size(%dtype) : {DECLARATIONS["aoti_torch_dtype_element_size"]}
  %last = llvm.add %offset, %reach : i64
  %last_byte = llvm.mul %last, %element : i64
  %needed = llvm.select %empty, %zero, %last_byte : i1, i64
  %is_there = llvm.icmp "ule" %needed, %bytes : i64
  llvm.cond_br %is_there, ^look, ^end(%other : i32)
^look:
  {_ask_lazy()}
  %holds_values = llvm.icmp "eq" %lazy, %no_byte : i8
  %same = llvm.or %same_strides, %empty : i1
  %usable = llvm.and %same, %holds_values : i1
  llvm.cond_br %usable, ^take, ^end(%other_layout : i32)
^take:
  %taken = llvm.call @aoti_torch_get_data_ptr(%handle, %place) : ({PTR}, {PTR}) -> i32
  %has_data = llvm.icmp "eq" %taken, %good : i32
  llvm.cond_br %has_data, ^align, ^end(%other : i32)
^align:
  {at("%third", "%item", 2, I64)}
  %written_bit = llvm.mlir.constant({WRITTEN} : i64) : i64
  %mask_bits = llvm.mlir.constant({WRITTEN - 1} : i64) : i64
  %mask = llvm.and %third, %mask_bits : i64
  %written = llvm.icmp "uge" %third, %written_bit : i64
  llvm.cond_br %written, ^may_write, ^measure_address
^may_write:
  %is_inference = llvm.call @{_IS_INFERENCE}(%handle) : {DECLARATIONS[_IS_INFERENCE]}
  %plain_tensor = llvm.icmp "eq" %is_inference, %no_byte : i8
  llvm.cond_br %plain_tensor, ^measure_address, ^ask_mode
^ask_mode:
  %in_mode = llvm.call @{_IN_INFERENCE_MODE}() : {DECLARATIONS[_IN_INFERENCE_MODE]}
  %may_write = llvm.icmp "ne" %in_mode, %no_byte : i8
  llvm.cond_br %may_write, ^measure_address, ^end(%other : i32)
^measure_address:
  %address = llvm.load %place : {PTR} -> i64
  %rest = llvm.and %address, %mask : i64
  %is_aligned = llvm.icmp "eq" %rest, %zero : i64
  %result = llvm.select %is_aligned, %good, %other_layout : i1, i32
  llvm.br ^end(%result : i32)
^end(%code: i32):
  llvm.return %code : i32""",
    ),
    # 0 if all arguments fit; their addresses are then in the first slots. Otherwise not 0.
    "cuesta_all_fit": define(
        "cuesta_all_fit",
        f"%slots: {PTR}, %table: {PTR}",
        "i32",
        f"""
  %other = llvm.mlir.constant({OTHER} : i32) : i32
  %objects = llvm.mlir.addressof @{SYMBOL} : {PTR}
  {at("%type_at", "%objects", 0, I64)}
  {at("%items_at", "%objects", 1, I64)}
  {at("%tensor_at", "%objects", 2, I64)}
  {at("%list_type", "%objects", 3, PTR)}
  {at("%tensor_type", "%objects", 4, PTR)}
  {at("%parameter_type", "%objects", 5, PTR)}
  {at("%count", "%table", 0, I64)}
  {at("%list_index", "%table", 1, I64)}
  {at("%first", "%table", 2)}
  {at("%list", "%slots", "%list_index", PTR)}
  %type_place = llvm.getelementptr %list[%type_at] : ({PTR}, i64) -> {PTR}, i8
  %type = llvm.load %type_place : {PTR} -> {PTR}
  %is_list = llvm.icmp "eq" %type, %list_type : {PTR}
  llvm.cond_br %is_list, ^measure, ^end(%other : i32)
^measure:
  %items_place = llvm.getelementptr %list[%items_at] : ({PTR}, i64) -> {PTR}, i8
  {at("%length", "%items_place", -1, I64)}
  %items = llvm.load %items_place : {PTR} -> {PTR}
  %is_whole = llvm.icmp "eq" %length, %count : i64
  llvm.cond_br %is_whole, ^loop(%zero, %first : i64, {PTR}), ^end(%other : i32)
^loop(%i: i64, %item: {PTR}):
  %more = llvm.icmp "ult" %i, %count : i64
  llvm.cond_br %more, ^find, ^end(%good : i32)
^find:
  %where = llvm.load %item : {PTR} -> i64
  %in_slots = llvm.icmp "slt" %where, %zero : i64
  llvm.cond_br %in_slots, ^slot, ^object
^slot:
  %slot_index = llvm.sub %minus_one, %where : i64
  {at("%held", "%slots", "%slot_index", PTR)}
  llvm.br ^compare(%held : {PTR})
^object:
  {at("%object", "%items", "%where", PTR)}
  %kind_place = llvm.getelementptr %object[%type_at] : ({PTR}, i64) -> {PTR}, i8
  %kind = llvm.load %kind_place : {PTR} -> {PTR}
  %is_tensor = llvm.icmp "eq" %kind, %tensor_type : {PTR}
  %is_parameter = llvm.icmp "eq" %kind, %parameter_type : {PTR}
  %is_known = llvm.or %is_tensor, %is_parameter : i1
  %own = llvm.getelementptr %object[%tensor_at] : ({PTR}, i64) -> {PTR}, i8
  llvm.cond_br %is_known, ^compare(%own : {PTR}), ^end(%other : i32)
^compare(%handle: {PTR}):
  {at("%place", "%slots", "%i")}
  %code = llvm.call @cuesta_fits(%handle, %item, %place) : ({PTR}, {PTR}, {PTR}) -> i32
  %behind = llvm.call @cuesta_behind(%item) : ({PTR}) -> {PTR}
  %next = llvm.add %i, %one : i64
  %fits = llvm.icmp "eq" %code, %good : i32
  llvm.cond_br %fits, ^loop(%next, %behind : i64, {PTR}), ^end(%code : i32)
^end(%result: i32):
  llvm.return %result : i32""",
    ),
}
