"""Builds the table of what a program expects of its arguments, and the function that checks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuesta.dialects.graph_function import donated_arguments
from cuesta.lowering.host_to_llvm.argument_step import WRITTEN
from cuesta.lowering.host_to_llvm.layout import HostLayout, Metadata, Value
from cuesta.lowering.host_to_llvm.steps import FAST_TO_COMPILE, PTR, at
from cuesta.runtime.arguments import ALIGNMENT, MISFIT
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.executable import CHECK
from cuesta.sizes import Number

#: The words of a tensor's shape (steps.py).
Shape = Callable[[Value, Metadata], Sequence[Number]]


def arguments_table(layout: HostLayout, shape: Shape) -> list[Number]:
    """The table of the arguments of a program (argument_step.py)."""
    written, donated = layout.written(), donated_arguments(layout.function)
    words: list[Number] = [layout.arguments, layout.list_slot]
    for i, argument in enumerate(layout.block.arguments):
        words += _item(layout, argument, i in written and argument not in donated, shape)
    return words


def check_function(layout: HostLayout, lines: Sequence[str], table: str) -> str:
    """The text of the function that checks the arguments; `lines` compute `table`, the address of the table."""
    return "\n".join(
        [
            f"llvm.func @{CHECK}(%slots: {PTR}) -> i32 attributes {{{FAST_TO_COMPILE}}} {{",
            "  %good = llvm.mlir.constant(0 : i32) : i32",
            f"  %misfit = llvm.mlir.constant({MISFIT} : i32) : i32",
            f"  {at('%tables', '%slots', layout.arguments + 3, PTR)}",
            *lines,
            f"  %code = llvm.call @cuesta_all_fit(%slots, {table}) : ({PTR}, {PTR}) -> i32",
            '  %fit = llvm.icmp "eq" %code, %good : i32',
            "  %result = llvm.select %fit, %good, %misfit : i1, i32",
            "  llvm.return %result : i32",
            "}",
        ]
    )


def _item(layout: HostLayout, argument: Value, written: bool, shape: Shape) -> list[Number]:
    """The item of one argument. An argument that the program frees is in a slot, no longer in the list."""
    metadata = layout.argument(argument)
    where = layout.places[argument].root.index
    if argument in layout.released:
        where = -1 - (layout.first_released + layout.released.index(argument))
    dtype = DTYPES[metadata.dtype]
    alignment = dtype.itemsize // (2 if dtype.is_complex else 1)
    if layout.target.gpu and argument not in layout.devices:
        alignment = ALIGNMENT
    mask = alignment - 1 | (WRITTEN if written else 0)
    return [where, 0, mask, *shape(argument, metadata)]
