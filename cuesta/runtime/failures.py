"""The exception for the code that a host program returned."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import torch

from cuesta.errors import ExecutionError


class Failures:
    """Codes of one program by its steps; see lowering/host_to_llvm/__init__.py for what a code says."""

    def __init__(self, steps: Sequence[dict[str, Any]]) -> None:
        self._steps = steps

    def error(self, code: int) -> Exception:
        """The exception to raise. To be called on the thread that ran the program, before it calls torch again."""
        step = self._steps[abs(code) - 1]
        if step["kind"] == "check":
            return IndexError(step["message"])
        where = f" ({step['where']})" if step["where"] else ""
        if step["kind"] == "allocation":
            return ExecutionError(f"memory for a result{where}: {_last_message()}")
        if code > 0:
            return ExecutionError(f"{step['overload']}{where}: {_last_message()}")
        traced = "; ".join(f"sizes {r['sizes']}, strides {r['strides']}" for r in step["results"])
        return ExecutionError(
            f"{step['overload']}{where} returned other sizes, strides or dtypes than it was traced with ({traced})"
        )


def _last_message() -> str:
    """What the last failed call of torch's C shim on this thread threw, without the C++ backtrace."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    try:
        what = library.torch_exception_get_what_without_backtrace
    except AttributeError:  # before 2.13 the shim printed the message and forgot it
        return "torch refused the call; its reason is on stderr"
    what.restype = ctypes.c_char_p
    message: bytes | None = what()
    return (message or b"torch refused the call").decode(errors="replace").strip()
