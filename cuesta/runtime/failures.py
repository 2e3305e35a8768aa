"""Makes the exception for the error code that a host program returned."""

from __future__ import annotations

import ctypes

import torch

from cuesta.errors import ExecutionError
from cuesta.runtime.arguments import MISFIT
from cuesta.runtime.cuda.cuda_driver import describe_error
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.program import AllocationStep, CallStep, Program
from cuesta.runtime.schema.tensors import plain
from cuesta.torch_library import torch_library


class Failures:
    """Maps error codes of one program to its steps; lowering/host_to_llvm/__init__.py describes the codes."""

    def __init__(self, program: Program, device: torch.device) -> None:
        self._steps = program["steps"]
        self._accesses = program["checked"]["accesses"] if "checked" in program else []
        self._device = device
        self._seen_without_memory = _times_without_memory(device)

    def error(self, code: int, driver_code: int = 0) -> Exception:
        """The exception to raise. `driver_code` is the driver's code of a failed launch on a GPU, or the record of a
        checked kernel.

        Must be called on the thread that ran the program, before that thread calls torch again.
        """
        if code == MISFIT:
            return ExecutionError("a bug of cuesta: torch's copies of the arguments do not fit the program either")
        step = self._steps[abs(code) - 1]
        if step["kind"] == "check":
            return _RAISED[step["raises"]](step["message"])
        where = f" ({step['where']})" if step["where"] else ""
        if step["kind"] == "launch" and self._accesses:
            from cuesta.runtime.checked import access_error  # imported here because few programs are checked

            return access_error(step, self._accesses, driver_code)
        if step["kind"] == "launch":
            return ExecutionError(f"launching kernel {step['kernel']}{where} failed: {describe_error(driver_code)}")
        message = _last_message()
        if self._without_memory(message):
            return self._out_of_memory(step, message)
        if step["kind"] == "allocation":
            return ExecutionError(f"allocating a result{where} failed: {message or _NO_MESSAGE}")
        if code > 0:
            return ExecutionError(f"{step['overload']}{where}: {message or _NO_MESSAGE}")
        traced = "; ".join(f"sizes {r['sizes']}, strides {r['strides']}" for r in step["results"])
        return ExecutionError(
            f"{step['overload']}{where} returned other sizes or dtypes than it was traced with, or no tensor ({traced})"
        )

    def _without_memory(self, message: str | None) -> bool:
        """Whether the device had no memory left, by torch's message or, before torch 2.13, by the allocator's count."""
        times = _times_without_memory(self._device)
        counted, self._seen_without_memory = times > self._seen_without_memory, times
        return "out of memory" in message if message is not None else counted

    def _out_of_memory(self, step: AllocationStep | CallStep, message: str | None) -> Exception:
        if message is None and step["kind"] == "allocation":
            try:  # repeats the allocation to get the allocator's own message
                sizes, strides = plain(step["sizes"]), plain(step["strides"])
                torch.empty_strided(sizes, strides, dtype=DTYPES[step["dtype"]], device=self._device)
            except torch.OutOfMemoryError as error:
                return error
        what = step["overload"] if step["kind"] == "call" else "a result"
        return torch.OutOfMemoryError(message or f"{self._device} is out of memory for {what}")


#: The exception that eager raises if a check fails, by its name.
_RAISED: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}
_NO_MESSAGE = "torch refused the call; stderr has the reason"


def _times_without_memory(device: torch.device) -> int:
    if device.type != "cuda" or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.memory_stats(device).get("num_ooms", 0))


def _last_message() -> str | None:
    """The message of the last failed call of torch's C shim on this thread, without the C++ backtrace. None if torch
    does not keep it (before 2.13 the shim printed the message and forgot it)."""
    library = torch_library()
    try:
        what = library.torch_exception_get_what_without_backtrace
    except AttributeError:
        return None
    what.restype = ctypes.c_char_p
    message: bytes | None = what()
    return (message or b"torch refused the call").decode(errors="replace").strip()
