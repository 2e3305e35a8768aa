"""Runs an artefact: loads its code and calls it with torch's tensors.

    executable = Executable(artefact)
    results = executable([x, weight])           # tensors in the order of the graph's arguments

The artefact's metadata hold under "program": `arguments`, each {sizes, strides, dtype}; `arena`, in bytes; `bases`, the
memory that results lie in, each with its owner: "caller" is allocated here, "torch" arrives as a
handle; `results`, each in an argument or a base at an offset in elements; `calls`, the calls into
ATen that go through Python; `steps`, what may fail, for the message. The slots that the entry takes
are described in lowering/host_to_llvm/layout.py.
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
from cuesta.runtime.elf import load_object, process_resolver
from cuesta.runtime.failures import Failures
from cuesta.runtime.handles import steal

Tensor = torch.Tensor

#: Shared by all graphs, so that their scratch memory does not add up.
ARENAS = ArenaPool()

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)  # releases the GIL while it runs
_allocate: Callable[..., Tensor] = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]


class Executable:
    """A loaded artefact. Threads may call it at once.

    Raises ArtefactError where the code does not load. A call raises IndexError for a failed check,
    ExecutionError with torch's message for a failed call of torch, and what Python raised for one that
    went through Python. Tensors must have the dtypes, sizes and strides of `arguments`: not checked.
    """

    def __init__(self, artefact: Artefact) -> None:
        self.metadata: dict[str, Any] = artefact.metadata["program"]
        self._loaded = load_object(artefact.objects, process_resolver())
        self._entry = _ENTRY(self._loaded.symbols[artefact.entry])
        self._calls = PythonCalls(self.metadata["calls"])
        self._callback = CALLBACK(self._calls.run) if self.metadata["calls"] else None
        self._failures = Failures(self.metadata["steps"])
        self._call = self._specialise()

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return self._call(tensors)

    def _specialise(self) -> Callable[[Sequence[Tensor]], list[Tensor]]:
        """A function for this artefact alone: a general one would spend its time on looking things up."""
        source = _source(self.metadata)
        count = len(self.metadata["arguments"]) + 3 + len(self.metadata["bases"])
        names: dict[str, Any] = {
            "entry": self._entry,
            "free_slots": [],
            "new_slots": lambda: _new_slots(count),
            "lease": ARENAS.lease,
            "threads": torch.get_num_threads,
            "callback": ctypes.cast(self._callback, ctypes.c_void_p).value if self._callback else 0,
            "allocate": _allocate,
            "steal": steal,
            "fail": self._fail,
            "pack": struct.Struct(f"={count}q").pack_into,
            "data_ptr": torch._C.TensorBase.data_ptr,
            "as_strided": torch.as_strided,
            **{f"dtype_{i}": DTYPES[b["dtype"]] for i, b in enumerate(self.metadata["bases"])},
            **{f"result_dtype_{i}": DTYPES[r["dtype"]] for i, r in enumerate(self.metadata["results"])},
        }
        exec(compile(source, "<cuesta call>", "exec"), names)
        call: Callable[[Sequence[Tensor]], list[Tensor]] = names["call"]
        return call

    def _fail(self, code: int) -> None:
        raised = self._calls.take_exception()
        if raised is not None:
            raise raised
        raise self._failures.error(code)


def _new_slots(count: int) -> tuple[Any, int]:
    slots = (ctypes.c_int64 * count)()
    return slots, ctypes.addressof(slots)


def _source(metadata: dict[str, Any]) -> str:
    """The text of `call`. Slots are taken from a stack: a thread, or a call within a call, finds its own."""
    arguments, bases = metadata["arguments"], metadata["bases"]
    few = 0 < len(arguments) <= 4
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
    if metadata["arena"]:
        add(f"    arena = lease({metadata['arena']})")
    add("    try:")
    add("        slots, address = free_slots.pop()")
    add("    except IndexError:")
    add("        slots, address = new_slots()")
    add(f"    pack(slots, 0, {', '.join(slots)})")
    add("    code = entry(address)")
    if metadata["arena"]:
        add("    arena.release()")
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
        start = f"{result['offset']}"
    else:
        source, base = f"a{index}" if few else f"tensors[{index}]", metadata["arguments"][index]
        start = f"{source}.storage_offset() + {result['offset']}"
    if result["whole"]:
        return source
    if base["dtype"] != result["dtype"]:
        source = f"{source}.view(result_dtype_{i})"
    return f"as_strided({source}, {tuple(result['sizes'])}, {tuple(result['strides'])}, {start})"
