"""Loads the machine code of an artefact and calls it with torch's tensors.

    executable = Executable(artefact)
    results = executable([x, weight])           # tensors in the order of the graph's arguments

The artefact's metadata have these keys under "program":

    arguments     each {sizes, strides, dtype}
    arena         bytes of scratch memory; `keeps_arena`: whether the arena stays in the pool after a call
    bases         the memory of the results, each with its owner: "caller" is allocated here, "torch" and "aten" arrive
                  as tensor handles; an op of ATen returned the tensor of an "aten" base
    released      numbers of the arguments that the program frees; their places in the list of tensors become None
    kept          how many tensor handles that are passed to torch stay in the slots between calls
    results       each lies in an argument or a base, at an offset in elements
    calls         the calls into ATen that go through Python
    steps         the steps that may fail, for the error message
    mutates       numbers of the arguments that the program writes
    lent          numbers of the arguments that the program overwrites because nobody needs them after the call; if
                  anybody still holds one, the program gets a copy instead (uniqueness_check.py)
    unread        numbers of the arguments that the program does not read, such as the tables of a block mask
    target, device
    kernels       the kernels of a GPU
    words, buffers, grids, late, assumed     everything that depends on sizes (sized.py)
    checked       where accesses are checked (checked.py)

lowering/host_to_llvm/layout.py describes the slots that the entry takes.

A call on a GPU takes its arena and its results from torch's caching allocator and launches on torch's current
stream, so work that is queued there may still use memory that the call has freed.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import math
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuesta.huge_pages import may_come_large, use_huge_pages
from cuesta.runtime.arena import ArenaPool
from cuesta.runtime.arguments import MISFIT, Arguments, elements_in_reach
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.callbacks import CALLBACK, PythonCalls
from cuesta.runtime.cuda.gpu_call import device_names, on_device
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.elf.loader import LoadedObject, Resolve, load_object, process_resolver
from cuesta.runtime.elf.object_layout import SYMBOL, object_layout
from cuesta.runtime.failures import Failures
from cuesta.runtime.handles import make_handles, steal
from cuesta.runtime.interface import check_interface
from cuesta.runtime.kernel_table import KernelTable
from cuesta.runtime.schema.program import Program, Result
from cuesta.runtime.schema.tensors import Tensor as Described
from cuesta.runtime.schema.tensors import plain
from cuesta.runtime.sized import admits, is_sized, with_sizes
from cuesta.runtime.uniqueness_check import own
from cuesta.torch_private.tensors import base_of, reinterpret_tensor

Tensor = torch.Tensor

#: All graphs share this pool, so that their scratch memory does not add up.
ARENAS = ArenaPool()

#: The function of a program that checks its arguments.
CHECK = "cuesta_check_arguments"

#: The word of the objects' layout that leads from a tensor to the handle in it, and the types of which that holds.
_HANDLE = 2
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})

#: The count of slots between the slots of the arguments and the slots of the bases.
_BEFORE_BASES = 5

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)  # releases the GIL while it runs
_Call = Callable[..., list[Tensor]]  # takes the tensors, and whether the call overwrites what others hold
_Fits = Callable[[list[Tensor]], bool]

# A tensor over the same memory with other sizes and strides, and an offset to add. Autograd does not see it as a view,
# because the graph was traced without one.
_view: Callable[..., Tensor] = reinterpret_tensor


class Executable:
    """A loaded artefact. Several threads may call it at the same time.

    Raises ArtefactError if the code does not load. A call raises IndexError or RuntimeError for a failed check,
    ExecutionError with torch's message for a failed call of torch, and torch.OutOfMemoryError if a GPU has no memory
    left. If a call of torch runs Python, by its route or because a dispatch mode sees it, Python's exception is raised
    as it is. Tensors that do not match `arguments` are copied into that layout, or raise InputError (arguments.py).
    """

    def __init__(self, artefact: Artefact, kernels: KernelTable | None = None) -> None:
        """`kernels` are the loaded kernels of an artefact for a GPU (cuesta/driver/loading.py)."""
        self.metadata: Program = artefact.metadata["program"]
        self._kernels = kernels
        loaded = load_object(artefact.objects, _resolver(kernels))
        check_interface(loaded.symbols, artefact.entry, self.metadata)
        # A class is freed only by a collection of garbage. So all sets of sizes share the class of the slots.
        self._make = functools.partial(
            _specialise,
            loaded=loaded,
            entry=loaded.symbols[artefact.entry],
            kernels=kernels,
            new_slots=_slots_maker(_slot_count(self.metadata), self.metadata["kept"]),
        )
        self._call: _Call = _needs_sizes
        self._fits: _Fits = _needs_sizes
        if not is_sized(self.metadata):
            self._call, self._fits = self._make(self.metadata)

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        return self._call(tensors)

    def recorded(self, tensors: list[Tensor]) -> list[Tensor]:
        """A call that is recorded: each replay overwrites the arguments that the program overwrites, whoever holds them
        now."""
        return self._call(tensors, True)

    def fits(self, tensors: list[Tensor]) -> bool:
        """Whether these tensors pass the check that the program makes before it runs, so that none is copied."""
        return self._fits(tensors)

    def admits(self, values: Mapping[str, int]) -> bool:
        """Whether the program may be called with these values of the symbols in its sizes."""
        return admits(self.metadata, values)

    def with_sizes(self, values: Mapping[str, int]) -> Executable:
        """The program for these values of the symbols in its sizes: the same code with other tables. Returns `self` if
        no size has symbols. Raises CompileError if the sizes need a late kernel and that fails to compile now."""
        if not is_sized(self.metadata):
            return self
        made = copy.copy(self)
        if "checked" in self.metadata:
            from cuesta.runtime.checked import check_operands

            check_operands(self.metadata["checked"]["operands"], values)
        made.metadata = with_sizes(self.metadata, values)
        if made.metadata["late"]:
            assert self._kernels is not None
            self._kernels.complete(made.metadata["late"])
        made._call, made._fits = made._make(made.metadata)
        return made


def _needs_sizes(tensors: list[Tensor], overwrites: bool = False) -> Any:
    raise TypeError("this program has symbolic sizes: call the result of with_sizes(…) instead")


def _resolver(kernels: KernelTable | None) -> Resolve:
    own = {SYMBOL: ctypes.addressof(object_layout())}
    libraries: Sequence[ctypes.CDLL] = ()
    if kernels is not None:
        own, libraries = own | kernels.symbols, kernels.libraries
    others = process_resolver(*libraries)
    return lambda name: own[name] if name in own else others(name)


def _specialise(
    metadata: Program,
    loaded: LoadedObject,
    entry: int,
    kernels: KernelTable | None,
    new_slots: Callable[[], tuple[Any, int]],
) -> tuple[_Call, _Fits]:
    """The call of an artefact and the check of its arguments.

    The call is generated for this artefact: a general one would spend its time on looking things up.
    """
    calls = PythonCalls(metadata["calls"])
    callback = CALLBACK(calls.run) if metadata["calls"] else None
    device = torch.device(metadata["device"])
    failures = Failures(metadata, device)
    stream = len(metadata["arguments"]) + 1  # after a failed launch: the driver's error or a checked kernel's record

    def fail(code: int, slots: Any) -> None:
        launch_error = kernels.take_exception() if kernels is not None else None
        raise calls.take_exception() or launch_error or failures.error(code, slots[stream])

    released = metadata["released"]
    count = _slot_count(metadata)
    tables = (ctypes.c_int64 * len(metadata["words"]))(*plain(metadata["words"]))
    names: dict[str, Any] = {
        "keep": (loaded, callback, kernels, tables),  # they must live as long as the function
        "tables": ctypes.addressof(tables),
        "entry": _ENTRY(entry),
        "free_slots": [],
        "new_slots": new_slots,
        "lease": ARENAS.lease,
        "threads": torch.get_num_threads,
        "callback": ctypes.cast(callback, ctypes.c_void_p).value if callback else 0,
        **device_names(device),
        "steal": steal,
        "take": lambda tensors: _take(tensors, released),
        "give_back": lambda tensors, slots: _give_back(tensors, released, slots[count - len(released) : count]),
        "own": own,
        "use_huge_pages": use_huge_pages,
        "uint8": torch.uint8,
        "fit": Arguments(metadata).fit,
        "fail": fail,
        "keep_exception": calls.keep_exception,
        "pack": struct.Struct(f"={count}q").pack_into,
        "view": _view,
        "base_of": base_of,
        **{f"dtype_{i}": DTYPES[b["dtype"]] for i, b in enumerate(metadata["bases"])},
        **{f"result_dtype_{i}": DTYPES[r["dtype"]] for i, r in enumerate(metadata["results"])},
    }
    around_call: Callable[[_Call], _Call] | None = None
    if "checked" in metadata and device.type == "cpu":
        from cuesta.runtime.checked import CheckedCall  # imported here because few programs are checked

        checked = CheckedCall(metadata)
        names |= {"lease": checked.lease, "allocate": checked.allocate}
        around_call = checked.around
    exec(compile(_source(metadata), "<cuesta call>", "exec"), names)
    call: _Call = names.pop("call")  # its globals must not refer to it, or it would never be freed
    call = around_call(call) if around_call else call
    fits = _checker(loaded, metadata, (ctypes.addressof(tables), tables))
    return (call if kernels is None else on_device(call, device)), fits


def _checker(loaded: LoadedObject, metadata: Program, tables: tuple[int, Any]) -> _Fits:
    """A function that runs the program's check of its arguments without running the program."""
    count = len(metadata["arguments"])
    if not count:
        return lambda tensors: not tensors
    check = _ENTRY(loaded.symbols[CHECK])
    held = metadata["released"]

    first = count + _BEFORE_BASES + len(metadata["bases"])
    slots = ctypes.c_int64 * (first + len(held))
    zeros = slots()
    tables_at, tensors_at = count + _BEFORE_BASES - 2, count + _BEFORE_BASES - 1
    zeros[tables_at] = tables[0]
    handle_at = object_layout()[_HANDLE]

    def fits(tensors: list[Tensor]) -> bool:
        words = slots.from_buffer_copy(zeros)
        words[tensors_at] = id(tensors)
        if held:
            # The check only looks at these: a handle may be the one in Python's object.
            picked = [tensors[i] for i in held]
            if not _PLAIN.issuperset(map(type, picked)):
                return False
            words[first:] = [address + handle_at for address in map(id, picked)]
        return bool(check(ctypes.addressof(words)) == 0)

    return fits


def _slot_count(metadata: Program) -> int:
    """The count of a program's slots without those of the kept tensors. It is the same for all sizes."""
    return len(metadata["arguments"]) + _BEFORE_BASES + len(metadata["bases"]) + len(metadata["released"])


def _slots_maker(count: int, kept: int) -> Callable[[], tuple[Any, int]]:
    """A function that makes slots and returns them with their address.

    The slots own the handles of the kept tensors, which follow the first `count` slots.
    """

    class Slots(ctypes.c_int64 * (count + 2 * kept)):  # type: ignore[misc]
        # `is_finalizing` is a default argument because Python clears this module's names at exit.
        def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
            if not is_finalizing():
                steal(*filter(None, self[count + 1 :: 2]))

    def make() -> tuple[Any, int]:
        slots = Slots()
        return slots, ctypes.addressof(slots)

    return make


def _take(tensors: list[Any], released: Sequence[int]) -> list[int]:
    """Makes handles of the released arguments and replaces these arguments by None in the list."""
    handles = make_handles([tensors[i] for i in released])
    for i in released:
        tensors[i] = None
    return handles


def _give_back(tensors: list[Any], released: Sequence[int], handles: Sequence[int]) -> None:
    """Undoes `_take`, for a program that refused its arguments before it ran."""
    for i, tensor in zip(released, steal(*handles), strict=True):
        tensors[i] = tensor


def _source(metadata: Program) -> str:
    """The source text of `call`. Slots come from a stack, so that no two calls use the same slots at the same time.

    The program reads the arguments from the list and checks them before it does anything else. If one does not fit, the
    program is called once more with the arguments that `fit` returns.
    """
    arguments, bases = metadata["arguments"], metadata["bases"]
    device = torch.device(metadata["device"])
    on_gpu = device.type != "cpu"
    lines = ["def call(tensors, overwrites=False):", "  fitted = None", "  while True:"]

    def add(line: str) -> None:
        lines.append(f"    {line}")

    for i in metadata["lent"]:
        add(f"overwrites or own(tensors, {_int(i)}, {_byte_count(arguments[i])})")
    slots = ["0"] * len(arguments)
    slots.append("0" if not metadata["arena"] else "arena.data_ptr()" if on_gpu else "arena.address")
    slots += [f"stream({device.index})" if on_gpu else "threads()", "callback", "tables", "id(tensors)"]
    for i, base in enumerate(bases):
        if base["owner"] == "caller":
            add(f"b{i} = allocate({_ints(base['sizes'])}, {_ints(base['strides'])}, dtype_{i})")
            if not on_gpu and may_come_large(_byte_count(base)):
                add(f"use_huge_pages(b{i}.data_ptr(), {_byte_count(base)})")
            slots.append(f"b{i}.data_ptr()")
        else:
            slots.append("0")
    if metadata["released"]:
        slots.append("*take(tensors)")
    if metadata["arena"]:
        nbytes = _int(metadata["arena"])
        add(f"arena = allocate(({nbytes},), (1,), uint8)" if on_gpu else f"arena = lease({nbytes})")
    add("try:")
    add("    slots, address = free_slots.pop()")
    add("except IndexError:")
    add("    slots, address = new_slots()")
    add(f"pack(slots, 0, {', '.join(slots)})")
    add("try:")
    add("    code = entry(address)")
    add("except SystemError as error:")
    add("    code = keep_exception(error)")
    if metadata["arena"] and not on_gpu:
        add("arena.release()" if metadata["keeps_arena"] else "arena.drop()")
    add("if code:")
    add(f"    if code == {MISFIT} and fitted is None:")
    if metadata["released"]:
        add("        give_back(tensors, slots)")
    add("        free_slots.append((slots, address))")
    add("        fitted = fit(tensors)")
    add("        tensors = fitted.tensors")
    add("        continue")
    add("    fail(code, slots)")
    owned = [i for i, base in enumerate(bases) if base["owner"] != "caller"]
    if owned:
        first = len(arguments) + _BEFORE_BASES
        handles = ", ".join(f"slots[{first + i}]" for i in owned)
        add(f"{', '.join(f'b{i}' for i in owned)}, = steal({handles})")
    for i in owned:
        if bases[i]["owner"] == "aten":
            # If an op returned a view, it has a base. AOTAutograd accepts arguments that share memory, one of which is
            # written, only if all of them have a base or none has. Views made here have none, so this one gets none.
            add(f"if base_of(b{i}) is not None:")
            add(f"    b{i} = view(b{i}, {_ints(bases[i]['sizes'])}, {_ints(bases[i]['strides'])}, 0)")
    add("free_slots.append((slots, address))")
    returned: set[str] = set()
    for i, result in enumerate(metadata["results"]):
        add(f"r{i} = {_result(i, result, metadata, returned)}")
    results = f"[{', '.join(f'r{i}' for i in range(len(metadata['results'])))}]"
    add(f"return {results} if fitted is None else fitted.finish({results})")
    return "\n".join(lines)


def _result(i: int, result: Result, metadata: Program, returned: set[str]) -> str:
    """The source text of a result. Every result is a separate tensor object, so a base or an argument is returned
    itself only once, and as a view from then on. `returned` collects the bases and arguments returned so far."""
    index = _int(result["index"])
    is_base = result["kind"] == "base"
    source = f"b{index}" if is_base else f"tensors[{index}]"
    base: Described = metadata["bases"][index] if is_base else metadata["arguments"][index]
    # A lent argument was saved for a gradient. A view keeps its autograd state out of the result.
    if result["whole"] and source not in returned and not (result["kind"] == "argument" and index in metadata["lent"]):
        returned.add(source)
        return source
    if base["dtype"] != result["dtype"]:
        source = f"view({source}, {_ints([elements_in_reach(base, result)])}, (1,), 0).view(result_dtype_{i})"
    return f"view({source}, {_ints(result['sizes'])}, {_ints(result['strides'])}, {_int(result['offset'])})"


def _byte_count(tensor: Described) -> int:
    return _int(math.prod(plain(tensor["sizes"])) * DTYPES[tensor["dtype"]].itemsize)


def _int(value: object) -> int:
    """The value, if it is an int. Only ints may enter the generated source, whatever the metadata hold."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an int")
    return value


def _ints(values: Sequence[object]) -> tuple[int, ...]:
    return tuple(map(_int, values))
