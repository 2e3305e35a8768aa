"""Finds accesses outside of buffers in programs compiled with `options={"checked": True}`.

The metadata of these programs have "checked":

    operands   [{what, offset, sizes, strides, itemsize, memory: {sizes, strides, itemsize}}]
               operands of which only a call's sizes tell whether they lie within their memory; offset in bytes, sizes
               and strides in elements of itemsize bytes
    accesses   [[buffer, "read" or "write", source line]]
               the places where kernels access memory; a record counts them from 1; buffer is the operand of the launch,
               -1 for the kernel's own scratch memory

Kernels check their addresses themselves (lowering/loops_to_llvm/check_bounds). ATen's accesses cannot be checked, so
red zones surround the arena and the memory that a call allocates on a CPU. They are compared after the call:

    | 64 … bytes of ZONE | the arena, or a result: all bits set, a NaN in every float | bytes of ZONE |
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence

import torch

from cuesta.errors import BoundsError
from cuesta.runtime.extents import extent
from cuesta.runtime.schema.program import Access, LaunchStep, Memory, Operand, Program
from cuesta.sizes import at, parse
from cuesta.torch_private.tensors import reinterpret_tensor

Tensor = torch.Tensor
Call = Callable[[list[Tensor]], list[Tensor]]

#: The content of a red zone, written around memory before a call. Its length is a multiple of the arena's alignment.
ZONE = bytes(0xA0 + n % 61 for n in range(4096))
#: Bits of a record that hold the distance of an access from its buffer; see check_bounds/inside.py.
_DISTANCE_BITS = 40
#: Fills memory before a call: all bits set are a NaN in every float type, so that reads of unwritten memory show.
_UNWRITTEN = 0xFF

_view: Callable[..., Tensor] = reinterpret_tensor


class Zones:
    """Memory with red zones around it. Numpy holds it, so that the storage of a tensor over the middle ends there."""

    def __init__(self, what: str, nbytes: int) -> None:
        self._what = what
        self._nbytes = nbytes
        self._storage = torch.empty(nbytes + 2 * len(ZONE) + 63, dtype=torch.uint8, device="cpu")
        begin = self._storage.data_ptr()
        self._start = len(ZONE) + (-begin) % 64
        self.address = begin + self._start
        ctypes.memset(self.address, _UNWRITTEN, nbytes)
        for zone in self._around():
            ctypes.memmove(zone, ZONE, len(ZONE))

    def _around(self) -> tuple[int, int]:
        return self.address - len(ZONE), self.address + self._nbytes

    def tensor(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        """The memory between the zones as a tensor. It must not be empty."""
        memory = self._storage.numpy()[self._start : self._start + self._nbytes]
        return _view(torch.frombuffer(memory, dtype=dtype), sizes, strides, 0)

    def problem(self) -> str | None:
        """Which red zone was written, and how far; None if neither was."""
        before, behind = (ctypes.string_at(zone, len(ZONE)) for zone in self._around())
        if before != ZONE:
            first = next(i for i, (a, b) in enumerate(zip(before, ZONE, strict=True)) if a != b)
            return f"memory up to {len(ZONE) - first} bytes before {self._what} was written"
        if behind != ZONE:
            last = max(i for i, (a, b) in enumerate(zip(behind, ZONE, strict=True)) if a != b)
            return f"memory up to {last + 1} bytes behind {self._what} was written"
        return None

    # -- as an arena --------------------------------------------------------------------------
    def release(self) -> None:
        """Does nothing: the memory must outlive the call, because its red zones are compared afterwards."""

    drop = release


class _Calls(threading.local):
    """The memory of the running calls of a thread, the innermost call last."""

    def __init__(self) -> None:
        self.running: list[list[Zones]] = []


class CheckedCall:
    """Puts red zones around the memory that a program's calls use, and compares them after each call."""

    def __init__(self, metadata: Program) -> None:
        self._calls = _Calls()
        self._suspects = [
            step["overload"] + (f" ({step['where']})" if step["where"] else "")
            for step in metadata["steps"]
            if step["kind"] == "call"
        ]

    def lease(self, nbytes: int) -> Zones:
        """An arena."""
        return self._add("the arena", nbytes)

    def allocate(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory for a result, as torch.empty_strided gives it; it cannot be resized."""
        nbytes = extent(sizes, strides, dtype.itemsize)
        assert isinstance(nbytes, int)
        if nbytes == 0:
            return torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")
        return self._add(f"a result of sizes {list(sizes)}, {dtype}", nbytes).tensor(sizes, strides, dtype)

    def _add(self, what: str, nbytes: int) -> Zones:
        zones = Zones(what, nbytes)
        self._calls.running[-1].append(zones)
        return zones

    def around(self, call: Call) -> Call:
        """`call`, followed by a comparison of the red zones. Raises BoundsError if one was written."""

        def looked_at(tensors: list[Tensor]) -> list[Tensor]:
            self._calls.running.append([])
            try:
                results = call(tensors)
            finally:
                used = self._calls.running.pop()
            for zones in used:
                if (problem := zones.problem()) is not None:
                    suspects = ", ".join(dict.fromkeys(self._suspects)) or "none"
                    raise BoundsError(f"{problem}, not by a kernel; the program's calls into ATen: {suspects}")
            return results

        return looked_at


def access_error(step: LaunchStep, accesses: Sequence[Access], record: int) -> BoundsError:
    """The error for the record of a kernel's first access outside of a buffer; `step` is the kernel's launch."""
    word = record & ((1 << 64) - 1)
    distance = word & ((1 << _DISTANCE_BITS) - 1)
    if distance >> (_DISTANCE_BITS - 1):
        distance -= 1 << _DISTANCE_BITS
    buffer, what, line = accesses[(word >> _DISTANCE_BITS) - 1]
    memory = "its scratch memory" if buffer < 0 else f"its buffer {buffer} ({step['buffers'][buffer]})"
    place = f"{-distance} bytes before the begin" if distance < 0 else f"up to {distance} bytes behind the end"
    made_at = line or step["where"]
    return BoundsError(
        f"kernel {step['kernel']}: a {what} {place} of {memory}{f', of {made_at}' if made_at else ''}; it was not "
        "carried out. This is an error of cuesta's: please report it, with a dump (docs/debugging.md)"
    )


def check_operands(rows: Sequence[Operand], values: Mapping[str, int]) -> None:
    """Raises BoundsError if an operand is not within its memory for these values of the symbols in sizes."""
    for row in rows:
        offset = _number(row["offset"], values)
        length, memory = (_length(region, values) for region in (row, row["memory"]))
        if length and not 0 <= offset <= memory - length:
            known = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise BoundsError(
                f"{row['what']} takes the bytes from {offset} to {offset + length} of memory that has {memory}, "
                f"where {known}"
            )


def _length(region: Memory, values: Mapping[str, int]) -> int:
    sizes, strides = ([_number(n, values) for n in region[key]] for key in ("sizes", "strides"))
    found = extent(sizes, strides, region["itemsize"])
    assert isinstance(found, int)
    return found


def _number(spelled: int | str, values: Mapping[str, int]) -> int:
    return at(parse(spelled), values) if isinstance(spelled, str) else spelled
