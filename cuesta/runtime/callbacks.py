"""Runs those calls of a host program into ATen that go through Python because torch's C shim cannot make them.

The program passes an array of handles to the operands, which this module takes over, and an array for the handles of
the results. An exception is kept for the thread until the program's caller raises it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import torch

from cuesta.errors import ExecutionError
from cuesta.runtime.arguments import is_lazy
from cuesta.runtime.aten_calls import find_overload, read_call
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.handles import make_handles, steal
from cuesta.runtime.schema.calls import Call
from cuesta.runtime.schema.tensors import Tensor as Described
from cuesta.runtime.schema.tensors import plain
from cuesta.runtime.strides import same_places
from cuesta.torch_private.tensors import is_zerotensor

Tensor = torch.Tensor

#: i32 callback(i64 call, handles of the operands, handles of the results); 0 for success.
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64)
)


class PythonCalls:
    """The calls of one program, by their number in its metadata."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._overloads = [find_overload(call["overload"]) for call in calls]
        self._arguments = [read_call(call["args"]) for call in calls]
        self._raised = threading.local()

    def run(self, number: int, operands: Any, results: Any) -> int:
        """The callback. It never raises, because ctypes would print the exception and continue."""
        try:
            tensors = steal(*operands[: self._calls[number]["operands"]])
            made = self._run(number, tensors)
            for i, handle in enumerate(make_handles(made)):
                results[i] = handle
        except BaseException as error:
            self._raised.exception = error
            return 1
        return 0

    def keep_exception(self, error: SystemError) -> int:
        """Keeps for `take_exception` what Python raised within torch. Returns the code of a program that failed.

        If, for example, a dispatch mode raises, torch reports a failure to the program but leaves Python's exception
        set. Then ctypes raises a SystemError instead of returning the program's code.
        """
        self._raised.exception = error.__cause__ or error
        return 1

    def take_exception(self) -> BaseException | None:
        """Returns the exception that a call on this thread raised last, and forgets it."""
        raised: BaseException | None = getattr(self._raised, "exception", None)
        self._raised.exception = None
        return raised

    def _run(self, number: int, tensors: list[Tensor]) -> list[Tensor]:
        call = self._calls[number]
        args, kwargs = self._arguments[number](tensors)
        returned = self._overloads[number](*args, **kwargs)
        if returned is None:  # the op was run only because it may raise
            return []
        every = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        kept = every if call["positions"] is None else [every[i] for i in call["positions"]]
        owned = {t.untyped_storage().data_ptr() for t in tensors}
        return [
            _checked(call["overload"], result, expected, owned)
            for result, expected in zip(kept, call["results"], strict=True)
        ]


def _checked(overload: str, result: Tensor | None, expected: Described, operands: set[int]) -> Tensor:
    """The result, or a copy of it. A result is copied

    - if it is a view of an operand, because the operand's memory is reused after the operand's last use,
    - if its strides are not those that torch's fake kernel predicted,
    - if its memory does not hold its values (a lazily conjugated tensor, a ZeroTensor).

    Raises ExecutionError if its sizes or dtype are not those that the graph was traced with.
    """
    sizes, strides, dtype = plain(expected["sizes"]), plain(expected["strides"]), DTYPES[expected["dtype"]]
    if result is None:
        raise ExecutionError(f"{overload} returned no tensor; the graph was traced with sizes {sizes}, {dtype}")
    if list(result.shape) != sizes or result.dtype != dtype:
        raise ExecutionError(
            f"{overload} returned sizes {list(result.shape)}, {result.dtype}; "
            f"the graph was traced with sizes {sizes}, {dtype}"
        )
    if is_lazy(result) or is_zerotensor(result):
        return torch.empty_strided(sizes, strides, dtype=dtype, device=result.device).copy_(result)
    same_strides = same_places(sizes, strides, result.stride())
    if not same_strides or (result.numel() and result.untyped_storage().data_ptr() in operands):
        return _copied(result, torch.empty_strided(sizes, strides, dtype=dtype, device=result.device), same_strides)
    return result


def _copied(result: Tensor, made: Tensor, same_strides: bool) -> Tensor:
    """Copies `result` into `made`. Elements may share an address, and torch refuses to write to such tensors: the copy
    goes over a flat view, or over one element of each dim of stride 0."""
    if same_strides:
        extent = 1 + sum((n - 1) * s for n, s in zip(made.shape, made.stride(), strict=True))
        made.as_strided((extent,), (1,)).copy_(result.as_strided((extent,), (1,)))
        return made
    one_of_equal = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in made.stride())
    made[one_of_equal].copy_(result[one_of_equal])
    return made
