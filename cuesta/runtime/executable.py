"""Runs an artefact: loads its code and calls it with torch's tensors.

    executable = Executable(artefact)
    results = executable([x, weight])           # tensors in the order of the graph's arguments

The artefact's metadata hold under "program": `arguments`, each {sizes, strides, dtype}; `arena`, in
bytes; `keeps_arena`, whether the next call may find it; `bases`, the memory that results lie in, each
with its owner: "caller" is allocated here, "torch" arrives as a handle; `released`, the numbers of the
arguments that the program gives back, whose places in the list of tensors become None; `results`, each
in an argument or a base at an offset in elements; `calls`, the calls into ATen that go through Python;
`steps`, what may fail, for the message. The slots that the entry takes are described in
lowering/host_to_llvm/layout.py.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuesta.runtime.arena import ArenaPool
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.callbacks import CALLBACK, PythonCalls
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.elf import LoadedObject, load_object, process_resolver
from cuesta.runtime.failures import Failures
from cuesta.runtime.handles import make_handles, steal

Tensor = torch.Tensor

#: Shared by all graphs, so that their scratch memory does not add up.
ARENAS = ArenaPool()

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)  # releases the GIL while it runs
_Call = Callable[[Sequence[Tensor]], list[Tensor]]

_allocate: Callable[..., Tensor] = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
# Other sizes, strides and an offset to add, over the same memory; for autograd no view, as it was traced without one.
_view: Callable[..., Tensor] = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]


class Executable:
    """A loaded artefact. Threads may call it at once.

    Raises ArtefactError where the code does not load. A call raises IndexError for a failed check,
    ExecutionError with torch's message for a failed call of torch, and what Python raised for one that
    went through Python. Tensors must have the dtypes, sizes and strides of `arguments`: not checked.
    """

    def __init__(self, artefact: Artefact) -> None:
        self.metadata: dict[str, Any] = artefact.metadata["program"]
        loaded = load_object(artefact.objects, process_resolver())
        self._call = _specialise(self.metadata, loaded, loaded.symbols[artefact.entry])

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return self._call(tensors)


def _specialise(metadata: dict[str, Any], loaded: LoadedObject, entry: int) -> _Call:
    """A function for one artefact alone: a general one would spend its time on looking things up."""
    calls = PythonCalls(metadata["calls"])
    callback = CALLBACK(calls.run) if metadata["calls"] else None
    failures = Failures(metadata["steps"])

    def fail(code: int) -> None:
        raise calls.take_exception() or failures.error(code)

    released = metadata["released"]
    count = len(metadata["arguments"]) + 3 + len(metadata["bases"]) + len(released)
    names: dict[str, Any] = {
        "keep": (loaded, callback),  # for as long as the function lives
        "entry": _ENTRY(entry),
        "free_slots": [],
        "new_slots": lambda: _new_slots(count),
        "lease": ARENAS.lease,
        "threads": torch.get_num_threads,
        "callback": ctypes.cast(callback, ctypes.c_void_p).value if callback else 0,
        "allocate": _allocate,
        "steal": steal,
        "take": lambda tensors: _take(tensors, released),
        "fail": fail,
        "pack": struct.Struct(f"={count}q").pack_into,
        "data_ptr": torch._C.TensorBase.data_ptr,
        "view": _view,
        **{f"dtype_{i}": DTYPES[b["dtype"]] for i, b in enumerate(metadata["bases"])},
        **{f"result_dtype_{i}": DTYPES[r["dtype"]] for i, r in enumerate(metadata["results"])},
    }
    exec(compile(_source(metadata), "<cuesta call>", "exec"), names)
    call: _Call = names.pop("call")  # or it would keep itself alive
    return call


def _new_slots(count: int) -> tuple[Any, int]:
    slots = (ctypes.c_int64 * count)()
    return slots, ctypes.addressof(slots)


def _take(tensors: list[Any], released: Sequence[int]) -> list[int]:
    """Handles of the released arguments, whose places in the list become None."""
    handles = make_handles([tensors[i] for i in released])
    for i in released:
        tensors[i] = None
    return handles


def _source(metadata: dict[str, Any]) -> str:
    """The text of `call`. Slots are taken from a stack: a thread, or a call within a call, finds its own."""
    arguments, bases = metadata["arguments"], metadata["bases"]
    few = 0 < len(arguments) <= 4 and not metadata["released"]
    lines = ["def call(tensors):"]
    add = lines.append
    if few:
        add(f"    {', '.join(f'a{i}' for i in range(len(arguments)))}, = tensors")
    slots: list[str] = [f"a{i}.data_ptr()" for i in range(len(arguments))] if few else ["*map(data_ptr, tensors)"]
    slots += ["arena.address" if metadata["arena"] else "0", "threads()", "callback"]
    for i, base in enumerate(bases):
        if base["owner"] == "caller":
            add(f"    b{i} = allocate({tuple(base['sizes'])}, {tuple(base['strides'])}, dtype_{i})")
            slots.append(f"b{i}.data_ptr()")
        else:
            slots.append("0")
    if metadata["released"]:
        slots.append("*take(tensors)")  # last: the others are read before
    if metadata["arena"]:
        add(f"    arena = lease({metadata['arena']})")
    add("    try:")
    add("        slots, address = free_slots.pop()")
    add("    except IndexError:")
    add("        slots, address = new_slots()")
    add(f"    pack(slots, 0, {', '.join(slots)})")
    add("    code = entry(address)")
    if metadata["arena"]:
        add("    arena.release()" if metadata["keeps_arena"] else "    arena.drop()")
    add("    if code:")
    add("        fail(code)")
    owned = [i for i, base in enumerate(bases) if base["owner"] == "torch"]
    if owned:
        first = len(arguments) + 3
        handles = ", ".join(f"slots[{first + i}]" for i in owned)
        add(f"    {', '.join(f'b{i}' for i in owned)}, = steal({handles})")
    add("    free_slots.append((slots, address))")
    names: dict[str, str] = {}
    for i, result in enumerate(metadata["results"]):
        key = repr(result)
        if key not in names:
            names[key] = f"r{i}"
            add(f"    r{i} = {_result(i, result, metadata, few)}")
        elif names[key] != f"r{i}":
            add(f"    r{i} = {names[key]}")  # returned twice: one tensor, as in eager
    add(f"    return [{', '.join(f'r{i}' for i in range(len(metadata['results'])))}]")
    return "\n".join(lines)


def _result(i: int, result: dict[str, Any], metadata: dict[str, Any], few: bool) -> str:
    index = result["index"]
    if result["kind"] == "base":
        source, base = f"b{index}", metadata["bases"][index]
    else:
        source, base = f"a{index}" if few else f"tensors[{index}]", metadata["arguments"][index]
    if result["whole"]:
        return source
    if base["dtype"] != result["dtype"]:
        source = f"{source}.view(result_dtype_{i})"
    return f"view({source}, {tuple(result['sizes'])}, {tuple(result['strides'])}, {result['offset']})"
