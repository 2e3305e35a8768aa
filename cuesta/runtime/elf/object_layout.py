"""Finds the offsets in CPython's and torch's objects by which a compiled program reads its list of tensors.

A program takes the Python list itself. Its first step reads the tensors from the list and checks them natively
(lowering/host_to_llvm/argument_step.py); asking each tensor through Python would take longer than the check.
The program needs six numbers for that, which differ between builds of Python and releases of torch:

    word 0   bytes from an object's address to the address of its type
    word 1   bytes from a list to the address of its items; the word before that is their count
    word 2   bytes from a tensor to the at::Tensor in it, whose address is a handle for torch's C shim
    word 3   the type `list`
    word 4   the type `torch.Tensor`
    word 5   the type `torch.nn.Parameter`

Programs find them under the symbol `cuesta_objects`. They are computed from the object sizes that Python reports, and
tested on a list and a tensor before any program uses them.
"""

from __future__ import annotations

import ctypes
import functools

import torch

from cuesta.errors import DeviceError
from cuesta.torch_private.tensors import address

#: The symbol of the words in programs.
SYMBOL = "cuesta_objects"

_WORD = ctypes.sizeof(ctypes.c_void_p)


@functools.cache
def object_layout() -> ctypes.Array[ctypes.c_int64]:
    """The six words, at an address that does not change. Raises DeviceError if this Python or torch has an unknown
    layout."""
    tensor, parameter = torch.empty(1), torch.nn.Parameter(torch.empty(1))
    objects = [tensor, parameter, tensor]
    # The type is the last field that all objects have. The last two fields of a list are its items and their capacity.
    type_at, items_at = object.__basicsize__ - _WORD, list.__basicsize__ - 2 * _WORD
    is_known = all(_word(id(x) + type_at) == id(type(x)) for x in (objects, tensor, parameter))
    is_known = is_known and _word(id(objects) + items_at - _WORD) == len(objects)
    if is_known:
        items = _word(id(objects) + items_at)
        is_known = [_word(items + i * _WORD) for i in range(len(objects))] == list(map(id, objects))
    places = range(object.__basicsize__, torch.Tensor.__basicsize__, _WORD)
    tensor_at = next((at for at in places if _word(id(tensor) + at) == address(tensor)), None)
    if not is_known or tensor_at is None or _word(id(parameter) + tensor_at) != address(parameter):
        raise DeviceError("this Python, or this torch, keeps lists and tensors in a way that cuesta does not know")
    words = type_at, items_at, tensor_at, id(list), id(torch.Tensor), id(torch.nn.Parameter)
    return (ctypes.c_int64 * len(words))(*words)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
