"""Runs kernels at the tt level with numpy in place of a GPU: target "tt".

A native program launches them as it would on a GPU, but a callback takes the place of the driver's cuLaunchKernelEx.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects import make_context, walk
from cuesta.dialects.tt.interpreter import Kernel, OutsideMemory, prepare
from cuesta.errors import BoundsError
from cuesta.runtime.kernel_table import ROW, KernelTable, make_words, numbers_of_late, row_of
from cuesta.runtime.schema import program as schema

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_uint32),  # the launch's description, which begins with the grid
    ctypes.c_int64,  # the function: here the kernel's number
    ctypes.POINTER(ctypes.c_void_p),  # the addresses of the parameters
    ctypes.c_void_p,
)
_SET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_FAILED = 999  # CUDA_ERROR_UNKNOWN


class _Interpreter:
    """The kernels of one program, parsed."""

    def __init__(self, kernels: Sequence[schema.Kernel], code: Mapping[str, bytes], checked: bool) -> None:
        self._described, self._code, self._checked = kernels, code, checked
        self._kernels: dict[int, Kernel] = {}
        self._raised = threading.local()
        self._lock = threading.Lock()  # a prepared kernel runs in one thread at a time

    def rows(self, numbers: Sequence[int]) -> list[list[int]]:
        """Parses kernels and returns their rows of the table."""
        with make_context():
            for number in numbers:
                self._kernels[number] = _prepared(self._code[self._described[number]["name"]].decode())
        return [row_of(number, self._described[number], 32) for number in numbers]

    def launch(self, config: Any, number: int, parameters: Any, _: Any) -> int:
        """The callback. Never raises: ctypes would print the exception and go on."""
        try:
            kernel = self._kernels[number]
            count = len(kernel.arguments)
            given = [ctypes.c_int64.from_address(parameters[i]).value for i in range(count)]
            with self._lock:
                kernel.run(tuple(config[:3]), given, self._extents(kernel, parameters) if self._checked else None)
        except OutsideMemory as error:
            self._raised.exception = BoundsError(f"kernel {self._kernels[number].name}: {error}")
            return _FAILED
        except BaseException as error:
            self._raised.exception = error
            return _FAILED
        return 0

    def _extents(self, kernel: Kernel, parameters: Any) -> list[int]:
        """The bytes of each argument. A checked program passes them after the kernel's own parameters."""
        count, buffers = len(kernel.arguments), kernel.pointers
        nbytes = (ctypes.c_int64.from_address(parameters[count + i]).value for i in range(buffers))
        return [*nbytes, *[0] * (count - buffers)]

    def take_exception(self) -> BaseException | None:
        raised: BaseException | None = getattr(self._raised, "exception", None)
        self._raised.exception = None
        return raised


def load_interpreted(kernels: Sequence[schema.Kernel], code: Mapping[str, bytes], checked: bool = False) -> KernelTable:
    """The table of `kernels`, as an artefact describes them. Their code is their MLIR text. If the program is
    `checked`, it passes the size of each buffer, and an access outside of a buffer is a BoundsError."""
    interpreter, late = _Interpreter(kernels, code, checked), numbers_of_late(kernels)
    present = interpreter.rows([number for number in range(len(kernels)) if number not in late])
    by_number = {row[0]: row for row in present}
    rows = [by_number.get(number, [0] * ROW) for number in range(len(kernels))]
    callbacks = {"cuLaunchKernelEx": _LAUNCH(interpreter.launch), "cuCtxSetCurrent": _SET_CONTEXT(lambda context: 0)}
    launchers = {name: ctypes.cast(callback, ctypes.c_void_p).value or 0 for name, callback in callbacks.items()}
    return KernelTable(
        make_words(0, rows),
        launchers,
        keep=callbacks,
        take_exception=interpreter.take_exception,
        late=late,
        make=interpreter.rows,
    )


def _prepared(text: str) -> Kernel:
    module = ir.Module.parse(text)  # a variable keeps the module alive while its functions are used
    (function,) = (op for op in walk(module.operation) if op.name == "tt.func")
    return prepare(function)
