"""Defines the step that calls any overload by name, through torch's dispatcher. steps.py describes its table.

The step converts words of the table to arguments one by one, lists and optionals by recursion. The dispatcher takes
ownership of the arguments. Arguments leak only if a later argument cannot be made because memory is exhausted.
typed_step.py uses the same words and results.
"""

from __future__ import annotations

from cuesta.dialects.host.aten_abi import torch_exports
from cuesta.lowering.host_to_llvm.steps import I64, PTR, STEP_END, TABLE, at, define

# The value of an optional is stored in a box on the heap, which torch deletes. torch before 2.13 has no function that
# makes a box; torch/csrc/stable/stableivalue_conversions.h says that operator new allocates it.
BOX_FROM_TORCH = f"%boxed = llvm.call @torch_new_stable_ivalue(%made) : ({PTR}) -> i32"
BOX_FROM_NEW = f"""%box_bytes = llvm.mlir.constant(8 : i64) : i64
  %new_box = llvm.call @_Znwm(%box_bytes) : (i64) -> {PTR}
  llvm.store %new_box, %made : {PTR}, {PTR}
  %boxed = llvm.mlir.constant(0 : i32) : i32"""


def word_helper(box: str) -> str:
    """Reads the next word. `cursor` holds the address of that word, then the codes of all failures so far, or-ed."""
    return define(
        "cuesta_word",
        f"%slots: {PTR}, %frame: {PTR}, %cursor: {PTR}",
        "i64",
        f"""
  %word = llvm.load %cursor : {PTR} -> {PTR}
  %kind = llvm.load %word : {PTR} -> i64
  {at("%content", "%word", 1)}
  {at("%later", "%word", 2)}
  {at("%number", "%word", 1, I64)}
  {at("%failures", "%cursor", 1)}
  %made = llvm.alloca %one x i64 : (i64) -> {PTR}
  llvm.store %zero, %made : i64, {PTR}
  llvm.switch %kind : i64, ^bits [
    1: ^tensor,
    2: ^optional,
    3: ^list,
    4: ^string,
    5: ^undefined,
    6: ^held
  ]
^bits:
  llvm.store %later, %cursor : {PTR}, {PTR}
  llvm.return %number : i64
^tensor:
  %behind_tensor = llvm.call @cuesta_behind(%content) : ({PTR}) -> {PTR}
  llvm.store %behind_tensor, %cursor : {PTR}, {PTR}
  %lent = llvm.alloca %one x {PTR} : (i64) -> {PTR}
  %borrowed = llvm.call @cuesta_borrow(%slots, %frame, %content, %lent) : ({PTR}, {PTR}, {PTR}, {PTR}) -> i32
  %there = llvm.icmp "eq" %borrowed, %good : i32
  llvm.cond_br %there, ^copy, ^end(%borrowed : i32)
^copy:
  %kept = llvm.load %lent : {PTR} -> {PTR}
  %doubled = llvm.call @aoti_torch_new_tensor_handle(%kept, %made) : ({PTR}, {PTR}) -> i32
  llvm.br ^end(%doubled : i32)
^optional:
  llvm.store %content, %cursor : {PTR}, {PTR}
  %inner = llvm.call @cuesta_word(%slots, %frame, %cursor) : ({PTR}, {PTR}, {PTR}) -> i64
  {box}
  %box = llvm.load %made : {PTR} -> {PTR}
  llvm.store %inner, %box : i64, {PTR}
  llvm.br ^end(%boxed : i32)
^list:
  llvm.store %later, %cursor : {PTR}, {PTR}
  %listed = llvm.call @torch_new_list_reserve_size(%number, %made) : (i64, {PTR}) -> i32
  %list = llvm.load %made : {PTR} -> {PTR}
  llvm.br ^items(%zero : i64)
^items(%i: i64):
  %more = llvm.icmp "ult" %i, %number : i64
  llvm.cond_br %more, ^item, ^end(%listed : i32)
^item:
  %value = llvm.call @cuesta_word(%slots, %frame, %cursor) : ({PTR}, {PTR}, {PTR}) -> i64
  %pushed = llvm.call @torch_list_push_back(%list, %value) : ({PTR}, i64) -> i32
  %next = llvm.add %i, %one : i64
  llvm.br ^items(%next : i64)
^string:
  %copied = llvm.call @torch_new_string_handle(%later, %number, %made) : ({PTR}, i64, {PTR}) -> i32
  %three = llvm.mlir.constant(3 : i64) : i64
  %full = llvm.lshr %number, %three : i64
  %words = llvm.add %full, %one : i64
  {at("%behind_string", "%later", "%words")}
  llvm.store %behind_string, %cursor : {PTR}, {PTR}
  llvm.br ^end(%copied : i32)
^undefined:
  %empty = llvm.call @aoti_torch_new_uninitialized_tensor(%made) : ({PTR}) -> i32
  llvm.store %content, %cursor : {PTR}, {PTR}
  llvm.br ^end(%empty : i32)
^held:
  %held_at = llvm.call @cuesta_address(%slots, %frame, %content) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %held = llvm.load %held_at : {PTR} -> {PTR}
  {at("%behind_held", "%word", 3)}
  llvm.store %behind_held, %cursor : {PTR}, {PTR}
  %shared = llvm.call @aoti_torch_new_tensor_handle(%held, %made) : ({PTR}, {PTR}) -> i32
  llvm.br ^end(%shared : i32)
^end(%code: i32):
  %inner_failures = llvm.load %failures : {PTR} -> i32
  %all = llvm.or %inner_failures, %code : i32
  llvm.store %all, %failures : i32, {PTR}
  %result = llvm.load %made : {PTR} -> i64
  llvm.return %result : i64""",
    )


#: Name → definition.
HELPERS: dict[str, str] = {
    "cuesta_word": word_helper(BOX_FROM_TORCH if torch_exports("torch_new_stable_ivalue") else BOX_FROM_NEW),
    # Stores the arguments of a call on a stack. Returns the codes of all failures, or-ed.
    "cuesta_words": define(
        "cuesta_words",
        f"{TABLE}, %stack: {PTR}",
        "i32",
        f"""
  {at("%words", "%table", 1, I64)}
  {at("%words_at", "%table", 5, I64)}
  {at("%first_word", "%table", "%words_at")}
  %two = llvm.mlir.constant(2 : i64) : i64
  %cursor = llvm.alloca %two x i64 : (i64) -> {PTR}
  llvm.store %first_word, %cursor : {PTR}, {PTR}
  {at("%failures", "%cursor", 1)}
  llvm.store %zero, %failures : i64, {PTR}
  llvm.br ^words(%zero : i64)
^words(%i: i64):
  %more = llvm.icmp "ult" %i, %words : i64
  llvm.cond_br %more, ^word, ^ready
^word:
  %value = llvm.call @cuesta_word(%slots, %frame, %cursor) : ({PTR}, {PTR}, {PTR}) -> i64
  {at("%place", "%stack", "%i")}
  llvm.store %value, %place : i64, {PTR}
  %next = llvm.add %i, %one : i64
  llvm.br ^words(%next : i64)
^ready:
  %failed = llvm.load %failures : {PTR} -> i32
  llvm.return %failed : i32""",
    ),
    # Moves the results of a call from an array into the frame, or drops them. Not 0 if one differs from the traced.
    "cuesta_take": define(
        "cuesta_take",
        f"%frame: {PTR}, %table: {PTR}, %made: {PTR}",
        "i32",
        f"""
  {at("%results", "%table", 2, I64)}
  {at("%results_at", "%table", 6, I64)}
  {at("%first_result", "%table", "%results_at")}
  llvm.br ^take(%zero, %first_result : i64, {PTR})
^take(%r: i64, %item: {PTR}):
  %left = llvm.icmp "ult" %r, %results : i64
  llvm.cond_br %left, ^look, ^adopt
^look:
  {at("%taken", "%made", "%r")}
  %behind = llvm.call @cuesta_behind(%item) : ({PTR}) -> {PTR}
  %next_result = llvm.add %r, %one : i64
  %handle_index = llvm.load %item : {PTR} -> i64
  %kept = llvm.icmp "sge" %handle_index, %zero : i64
  llvm.cond_br %kept, ^keep, ^leave
^keep:
  %handle = llvm.load %taken : {PTR} -> i64
  {at("%slot", "%frame", "%handle_index")}
  llvm.store %handle, %slot : i64, {PTR}
  llvm.br ^take(%next_result, %behind : i64, {PTR})
^leave:
  %is_tensor = llvm.icmp "eq" %handle_index, %minus_one : i64
  llvm.cond_br %is_tensor, ^drop, ^take(%next_result, %behind : i64, {PTR})
^drop:
  llvm.call @cuesta_delete(%taken, %one) : ({PTR}, i64) -> ()
  llvm.br ^take(%next_result, %behind : i64, {PTR})
^adopt:
  %adopted = llvm.call @cuesta_adopt_all(%frame, %first_result, %results) : ({PTR}, {PTR}, i64) -> i32
  llvm.return %adopted : i32""",
    ),
    "cuesta_dispatch": define(
        "cuesta_dispatch",
        TABLE,
        "i32",
        f"""
  {at("%words", "%table", 1, I64)}
  {at("%results", "%table", 2, I64)}
  {at("%name_at", "%table", 3, I64)}
  {at("%overload_at", "%table", 4, I64)}
  {at("%name", "%table", "%name_at")}
  {at("%overload", "%table", "%overload_at")}
  %positive = llvm.mlir.constant(1 : i32) : i32
  %negative = llvm.mlir.constant(-1 : i32) : i32
  %depth = llvm.intr.umax(%words, %results) : (i64, i64) -> i64
  %stack = llvm.alloca %depth x i64 : (i64) -> {PTR}
  %filled = llvm.call @cuesta_words(%slots, %frame, %table, %stack) : ({PTR}, {PTR}, {PTR}, {PTR}) -> i32
  %ready = llvm.icmp "eq" %filled, %good : i32
  llvm.cond_br %ready, ^call, ^end(%filled, %positive : i32, i32)
^call:
  %called = llvm.call @aoti_torch_call_dispatcher(%name, %overload, %stack) : ({PTR}, {PTR}, {PTR}) -> i32
  %returned = llvm.icmp "eq" %called, %good : i32
  llvm.cond_br %returned, ^take, ^end(%called, %positive : i32, i32)
^take:
  %adopted = llvm.call @cuesta_take(%frame, %table, %stack) : ({PTR}, {PTR}, {PTR}) -> i32
  llvm.br ^end(%adopted, %negative : i32, i32)
^end(%code: i32, %sign: i32):{STEP_END}""",
    ),
}
