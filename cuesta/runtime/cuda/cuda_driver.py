"""Loads the machine code of kernels on an NVIDIA GPU by the driver's own interface: no compiler, no Triton.

Loaded code stays loaded, because queued work or a recorded graph may still refer to it. The same code is never loaded
twice on a device.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuesta.errors import DeviceError
from cuesta.runtime.kernel_table import ROW, KernelTable, make_words, numbers_of_late, row_of
from cuesta.runtime.schema.program import Kernel

#: Bytes of shared memory that a kernel may use without setting an attribute.
_PLAIN_SHARED = 48 << 10
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DRIVER = "libcuda.so.1"
#: CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION: the driver's errors for code for
#: another GPU, or code that is newer than the driver.
_CODE_REFUSED = (200, 209, 218, 222)
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT

_LOCK = threading.Lock()
_LOADED: dict[tuple[int, bytes], int] = {}  # device and digest of code and symbol → function


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver's library, opened so that the loader of compiled code finds its symbols. Raises DeviceError if it is
    missing."""
    try:
        return ctypes.CDLL(_DRIVER, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise DeviceError(f"this machine has no NVIDIA driver: {error}") from None


def load_kernels(
    kernels: Sequence[Kernel], code: Mapping[str, bytes], target: str, device: int, libraries: list[ctypes.CDLL]
) -> KernelTable:
    """Loads `kernels`, as an artefact describes them, onto a device, by torch's number of it. Returns their table, in
    which late kernels have rows of zeros.

    Raises DeviceError if there is no such device, or if it cannot run code for `target`.
    """
    late = numbers_of_late(kernels)
    present = iter(rows_of([k for k in kernels if not k["late"]], code, target, device))
    rows = [[0] * ROW if number in late else next(present) for number in range(len(kernels))]
    return KernelTable(make_words(_primary_context(device), rows), libraries=[driver(), *libraries], late=late)


def rows_of(kernels: Sequence[Kernel], code: Mapping[str, bytes], target: str, device: int) -> list[list[int]]:
    """Loads kernels and returns their rows of the table. Raises what `load_kernels` raises."""
    _call("cuCtxPushCurrent_v2", ctypes.c_void_p(_primary_context(device)))
    try:
        functions = [_load(kernel, code[kernel["name"]], target, device) for kernel in kernels]
    finally:
        _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    return [row_of(function, kernel, 32) for function, kernel in zip(functions, kernels, strict=True)]


@functools.cache
def copier(device: int) -> Callable[[int, int, int, int], None]:
    """A function that queues a copy within a device's memory: to an address, from an address, of a number of bytes, on
    a stream by its handle. It takes a fraction of Tensor.copy_'s time. It raises DeviceError with the driver's message.
    """
    name = "cuMemcpyDtoDAsync_v2"
    copy = driver()[name]
    copy.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)

    def queue(place: int, source: int, nbytes: int, stream: int) -> None:
        code = copy(place, source, nbytes, stream)
        if code == _NO_CONTEXT:  # a thread's first use of the device
            _call("cuCtxSetCurrent", ctypes.c_void_p(_primary_context(device)))
            code = copy(place, source, nbytes, stream)
        if code:
            raise DeviceError(f"{name} failed for {nbytes} bytes: {describe_error(code)}")

    return queue


def _load(kernel: Kernel, code: bytes, target: str, device: int) -> int:
    symbol: str = kernel["symbol"]
    key = (device, hashlib.sha256(symbol.encode() + b"\0" + code).digest())
    with _LOCK:
        if key not in _LOADED:
            _LOADED[key] = _load_anew(kernel, code, symbol, target)
        return _LOADED[key]


def _load_anew(kernel: Kernel, code: bytes, symbol: str, target: str) -> int:
    what = f"kernel {kernel['name']}, made for {target}"
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code), what=what)
    _call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(symbol.encode()), what=what)
    if kernel["shared"] > _PLAIN_SHARED:
        shared = f"{what}, with {kernel['shared']} bytes of shared memory"
        _call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, kernel["shared"], what=shared)
    assert function.value is not None
    return function.value


@functools.cache
def _primary_context(device: int) -> int:
    """The device's primary context, which torch uses."""
    _call("cuInit", 0)
    number, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuDeviceGet", ctypes.byref(number), device, what=f"device {device}")
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number, what=f"device {device}")
    assert context.value is not None
    return context.value


def _call(name: str, *arguments: Any, what: str = "") -> None:
    code = getattr(driver(), name)(*arguments)
    if code:
        hint = _driver_hint() if code in _CODE_REFUSED else ""
        raise DeviceError(f"{name} failed{f' for {what}' if what else ''}: {describe_error(code)}{hint}")


def _driver_hint() -> str:
    version = ctypes.c_int()
    if driver().cuDriverGetVersion(ctypes.byref(version)):
        return ""
    return f"; the driver is one for CUDA {version.value // 1000}.{version.value % 1000 // 10}: is it too old?"


def describe_error(code: int) -> str:
    """The name and the description that the driver has for an error code."""
    words = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        text = ctypes.c_char_p()
        if getattr(driver(), name)(code, ctypes.byref(text)) == 0 and text.value:
            words.append(text.value.decode(errors="replace"))
    return ": ".join(words) or f"error {code}"
