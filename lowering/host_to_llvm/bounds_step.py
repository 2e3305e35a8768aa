"""Defines the step after each launch of a checked program on a CPU, which fails if the kernel made an access out of
bounds. steps.py describes its table.

Kernels write to a record, one word in the frame after the handles and addresses. The word before the record holds its
address, so that a launch passes the record like a buffer.
"""

from __future__ import annotations

from cuesta.lowering.host_to_llvm.layout import HostLayout
from cuesta.lowering.host_to_llvm.steps import I64, PTR, TABLE, at, define

#: Words that a checked program has at the end of its frame: the record's address, and the record.
RECORD_WORDS = 2

#: Name → definition.
HELPERS: dict[str, str] = {
    # Copies the record of a bad access to the slot of the thread count; the GPU's launch step likewise copies its error
    # code to the stream's slot.
    "cuesta_bounds": define(
        "cuesta_bounds",
        TABLE,
        "i32",
        f"""
  {at("%item", "%table", 1)}
  {at("%slot_index", "%table", 3, I64)}
  {at("%slot", "%slots", "%slot_index")}
  %number = llvm.load %table : {PTR} -> i32
  %record = llvm.call @cuesta_address(%slots, %frame, %item) : ({PTR}, {PTR}, {PTR}) -> {PTR}
  %word = llvm.load %record : {PTR} -> i64
  %inside = llvm.icmp "eq" %word, %zero : i64
  llvm.cond_br %inside, ^inside, ^outside
^inside:
  llvm.return %good : i32
^outside:
  llvm.store %word, %slot : i64, {PTR}
  llvm.return %number : i32""",
    ),
}


def record_place(layout: HostLayout) -> list[int]:
    """Root and offset of the record."""
    return [-1 - 2 * len(layout.handles), 0]


def empty_record(layout: HostLayout) -> list[str]:
    """The lines of the entry that set up an empty record."""
    first = 2 * len(layout.handles)
    return [
        "  %no_access = llvm.mlir.constant(0 : i64) : i64",
        f"  {at('%record_address', '%frame', first)}",
        f"  {at('%record', '%frame', first + 1)}",
        f"  llvm.store %record, %record_address : {PTR}, {PTR}",
        f"  llvm.store %no_access, %record : i64, {PTR}",
    ]
