"""Where tensors that an artefact describes lie: inside the memory that they are said to be in, or they are refused.

Everything is in bytes. The memory of a tensor ends behind its last element: gaps that its strides leave belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.checks import MOST, Wrong

_WIDTHS = {name: dtype.itemsize for name, dtype in DTYPES.items()}


def extent(tensor: Mapping[str, Any]) -> int:
    """Bytes from a tensor's first element to behind its last; 0 without elements. Raises Wrong for a negative size or
    stride and for more bytes than 64 bits count."""
    elements = extent_in_elements(tensor["sizes"], tensor["strides"])
    nbytes = elements * _WIDTHS[tensor["dtype"]]
    if nbytes > MOST:
        raise Wrong(nbytes, "bytes of a tensor are counted in 63 bits")
    return nbytes


def extent_in_elements(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """The same in elements."""
    last = 0
    for number, size in enumerate(sizes):
        if size < 0:
            raise Wrong(size, "a size is 0 or more").within(f".sizes[{number}]")
        if size > 1:
            last += (size - 1) * strides[number]
    if 0 in sizes:  # then strides say nothing
        return 0
    for number, stride in enumerate(strides):
        if stride < 0:
            raise Wrong(stride, "a stride is 0 or more").within(f".strides[{number}]")
    return last + 1


def check_result(result: Mapping[str, Any], memory: Mapping[str, Any], nbytes: int) -> None:
    """Raises Wrong unless a result lies inside `memory`, a tensor as described, which is `nbytes` long."""
    if result["whole"]:
        if result["offset"] != 0 or any(result[key] != memory[key] for key in ("sizes", "strides", "dtype")):
            raise Wrong(True, "it is another tensor than the whole memory").within(".whole")
        return
    offset = result["offset"]
    if offset < 0:
        raise Wrong(offset, "an offset is 0 or more").within(".offset")
    needed = extent(result)
    if needed == 0:  # reads nothing, wherever it begins
        return
    end = offset * _WIDTHS[result["dtype"]] + needed
    if end > nbytes:
        raise Wrong(end, f"it ends at this byte; its memory has {nbytes}")


def check_places(program: Mapping[str, Any]) -> None:
    """Raises Wrong unless every result of a program, all of whose sizes are numbers, lies inside its memory."""
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


#: Kind of a result → the list of the program that has its memory.
MEMORY_OF = {"argument": "arguments", "base": "bases"}
