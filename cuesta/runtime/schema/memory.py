"""Checks that the results of an artefact's program lie inside the memory that they are said to be in.

Everything is in bytes. A tensor's memory extends to the end of its last element, including gaps between elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.checks import MOST, Wrong

_WIDTHS = {name: dtype.itemsize for name, dtype in DTYPES.items()}


def extent(tensor: Mapping[str, Any]) -> int:
    """Bytes from a tensor's first element to the end of its last; 0 if it has no elements. Raises Wrong for a negative
    size or stride, and for more bytes than MOST."""
    elements = extent_in_elements(tensor["sizes"], tensor["strides"])
    nbytes = elements * _WIDTHS[tensor["dtype"]]
    if nbytes > MOST:
        raise Wrong(nbytes, "bytes of a tensor are counted in 63 bits")
    return nbytes


def extent_in_elements(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from a tensor's first to its last, gaps included; 0 if it has no elements."""
    last = 0
    for number, size in enumerate(sizes):
        if size < 0:
            raise Wrong(size, "a size is 0 or more").within(f".sizes[{number}]")
        if size > 1:
            last += (size - 1) * strides[number]
    if 0 in sizes:  # then the strides do not matter
        return 0
    for number, stride in enumerate(strides):
        if stride < 0:
            raise Wrong(stride, "a stride is 0 or more").within(f".strides[{number}]")
    return last + 1


def check_result(result: Mapping[str, Any], memory: Mapping[str, Any], nbytes: int) -> None:
    """Raises Wrong unless a result lies inside `memory`, the description of a tensor of `nbytes` bytes."""
    if result["whole"]:
        if result["offset"] != 0 or any(result[key] != memory[key] for key in ("sizes", "strides", "dtype")):
            raise Wrong(True, "the result's sizes, strides and dtype are not those of its whole memory").within(
                ".whole"
            )
        return
    offset = result["offset"]
    if offset < 0:
        raise Wrong(offset, "an offset is 0 or more").within(".offset")
    needed = extent(result)
    if needed == 0:  # a result without elements reads no memory, so its offset does not matter
        return
    end = offset * _WIDTHS[result["dtype"]] + needed
    if end > nbytes:
        raise Wrong(end, f"the tensor ends at this byte; its memory has {nbytes} bytes")


def check_places(program: Mapping[str, Any]) -> None:
    """Raises Wrong unless every result of a program lies inside its memory. All sizes must be numbers."""
    extents = {}
    for key in ("arguments", "bases"):
        for number, tensor in enumerate(program[key]):
            try:
                extents[key, number] = extent(tensor)
            except Wrong as wrong:
                raise wrong.within(f".{key}[{number}]") from None
    for number, result in enumerate(program["results"]):
        key, index = MEMORY_OF[result["kind"]], result["index"]
        try:
            check_result(result, program[key][index], extents[key, index])
        except Wrong as wrong:
            raise wrong.within(f".results[{number}]") from None


#: Kind of a result → the program's list of the tensors that it may lie in.
MEMORY_OF = {"argument": "arguments", "base": "bases"}
