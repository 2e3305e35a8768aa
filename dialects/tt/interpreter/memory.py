"""Interprets loads, stores and atomics at raw addresses.

In a masked access, only lanes whose mask is true touch memory. If the caller gives the size of each argument's
memory, a lane outside the memory of the argument that its pointer comes from is an error (if that argument is
unknown, a lane outside the memory of all arguments). Loads may touch the 16 bytes in which memory ends whole. Where
the mask is false, a load without `other` gives NaN or a strange integer: nothing may depend on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuesta._mlir import ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.interpreter.program import Action, Builder, Execution, Run, action_maker, maker
from cuesta.dialects.tt.interpreter.values import (
    Array,
    InterpreterError,
    OutsideMemory,
    from_memory,
    held,
    memory_dtype,
    register_dtype,
    spelling,
    to_memory,
    unsigned,
    whole,
)
from cuesta.dialects.tt.types import pointee_spelling, shape_of

#: A load of so many bytes at a multiple of them touches no page of memory but that of its first byte.
_WIDEST_LOAD = 16


@action_maker(ops.AddPtr)
def _addptr(op: ir.Operation) -> Action:
    size = memory_dtype(pointee_spelling(op.result)).itemsize
    return lambda run, x: (x[0] + x[1].astype(np.int64) * size,)


def view(first: int, count: int, dtype: np.dtype[Any]) -> Array:
    """`count` elements of memory from address `first` on; only elements that exist may be accessed."""
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(first)
    return np.ndarray((count,), dtype, memory)


@dataclass(frozen=True)
class Access:
    """What the messages and checks of one memory op need."""

    what: str
    argument: int | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    #: Memory that may be accessed ends at a multiple of so many bytes.
    unit: int

    @staticmethod
    def of(builder: Builder, op: ir.Operation) -> Access:
        pointer = op.operands[0]
        dtype = memory_dtype(pointee_spelling(pointer))
        what = f"'{op.name}' at {op.location}"
        unit = _WIDEST_LOAD if ops.Load.matches(op) else 1
        return Access(what, builder.origins.get(pointer), dtype, shape_of(pointer), unit)

    def mask(self, run: Run, mask: Array | None) -> Array | None:
        """Which lanes touch memory; None: all."""
        if run.active is None:
            return mask
        active = run.active.reshape(-1, *(1,) * len(self.shape))
        return active if mask is None else mask & active

    def locate(self, run: Run, addresses: Array, mask: Array | None) -> tuple[Array, Array] | None:
        """Memory as one array, and the index of each lane's address in it. Lanes whose `mask` is false get the index
        of a lane whose mask is true. None if no lane touches memory.
        """
        if mask is not None:
            addresses, mask = np.broadcast_arrays(addresses, mask)
            place = int(np.argmax(mask))
            fallback = addresses.flat[place]
            if not mask.flat[place]:
                return None
            addresses = np.where(mask, addresses, fallback)
        first, last = int(addresses.min()), int(addresses.max())
        size = self.dtype.itemsize
        if run.memory is not None:
            self._check(run, addresses, first, last + size)
        offsets = addresses - first
        if size > 1:
            if first % size or int(np.bitwise_or.reduce(offsets, axis=None)) % size:
                raise InterpreterError(f"{self.what}: an address is not a multiple of {size}, its element's size")
            offsets >>= size.bit_length() - 1
        return view(first, (last - first) // size + 1, self.dtype), offsets

    def _check(self, run: Run, addresses: Array, first: int, end: int) -> None:
        assert run.memory is not None
        memory = run.memory if self.argument is None else [run.memory[self.argument]]
        allowed = [(start, size + -(start + size) % self.unit) for start, size in memory]
        if any(start <= first and end <= start + size for start, size in allowed):
            return
        inside = np.zeros(addresses.shape, np.bool_)
        for start, size in allowed:
            inside |= (addresses >= start) & (addresses + self.dtype.itemsize <= start + size)
        if inside.all():
            return
        place = np.unravel_index(int(np.argmin(inside)), addresses.shape)
        program = tuple(int(i[min(int(place[0]), len(i) - 1)]) for i in run.ids)
        lane, where = [int(i) for i in place[1:]], ""
        if self.argument is not None:
            start, size = memory[0]
            where = f" byte {int(addresses[place]) - start} of argument {self.argument}, which has {size} bytes"
        raise OutsideMemory(f"{self.what}: program {program}, lane {lane}, is outside memory:{where}")


@maker(ops.Load)
def _load(builder: Builder, op: ir.Operation) -> Execution:
    access, kind = Access.of(builder, op), pointee_spelling(op.operands[0])
    sizes = ops.Load.operandSegmentSizes.of(op)
    other = _poison(register_dtype(kind))

    def load(run: Run, x: list[Array]) -> tuple[Array]:
        mask = access.mask(run, x[1] if sizes[1] else None)
        instead = x[2] if sizes[2] else other
        found = access.locate(run, x[0], mask)
        if found is None:
            return (np.broadcast_to(instead, (1,) * (len(access.shape) + 1)) if not sizes[2] else instead,)
        loaded = from_memory(found[0][found[1]], kind)
        return (loaded if mask is None else np.where(mask, loaded, instead),)

    return builder.bind(op, load)


def _poison(dtype: np.dtype[Any]) -> Array:
    return np.array(np.nan if dtype.kind == "f" else -0x5A5A5A5A5A5A5A5B).astype(dtype)


@maker(ops.Store)
def _store(builder: Builder, op: ir.Operation) -> Execution:
    access, kind = Access.of(builder, op), pointee_spelling(op.operands[0])

    def store(run: Run, x: list[Array]) -> tuple[()]:
        mask = access.mask(run, x[2] if len(x) == 3 else None)
        found = access.locate(run, x[0], mask)
        if found is not None:
            _write(found, to_memory(x[1], kind), mask, access.shape)
        return ()

    return builder.bind(op, store)


def _write(found: tuple[Array, Array], value: Array, mask: Array | None, shape: tuple[int, ...]) -> None:
    """If several lanes have one address, the last in program order wins."""
    memory, places = found
    arrays = [whole(places, shape), whole(value, shape)]
    if mask is not None:
        arrays.append(whole(mask, shape))
    arrays = list(np.broadcast_arrays(*arrays))
    if mask is None or arrays[2].all():
        memory[arrays[0]] = arrays[1]
    else:
        memory[arrays[0][arrays[2]]] = arrays[1][arrays[2]]


# -- atomics -------------------------------------------------------------------------------------
_COMBINE: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": np.maximum,
    "umin": np.minimum,
}


@maker(ops.AtomicRMW)
def _atomic_rmw(builder: Builder, op: ir.Operation) -> Execution:
    """Updates one lane after the other, in program order, or all at once if nothing uses the old values."""
    access, kind = Access.of(builder, op), spelling(op.operands[1])
    name = ops.AtomicRMW.atomic_rmw_op.of(op)
    asked = next(iter(op.result.uses), None) is not None
    builder.ordered |= asked
    read = unsigned if name.startswith("u") else np.asarray

    def update(run: Run, x: list[Array]) -> tuple[Array]:
        mask = access.mask(run, x[2] if len(x) == 3 else None)
        shape = (run.programs, *access.shape)
        old = np.zeros(shape, register_dtype(kind))
        found = access.locate(run, np.broadcast_to(x[0], shape), mask)
        if found is None:
            return (old,)
        chosen = np.broadcast_to(True if mask is None else mask, shape)
        places, given = np.broadcast_to(found[1], shape)[chosen], np.broadcast_to(x[1], shape)[chosen]
        if name in _COMBINE and kind != "bf16" and not asked:
            _COMBINE[name].at(read(found[0]), places, read(given))  # type: ignore[attr-defined]
        else:
            old[chosen] = one_by_one(found[0], places, given)
        return (old,)

    def one_by_one(memory: Array, places: Array, given: Array) -> Array:
        before = np.empty(len(places), register_dtype(kind))
        for i, place in enumerate(places):
            current = from_memory(memory[place : place + 1], kind)
            new = given[i : i + 1]
            before[i] = current[0]
            if name != "exch":
                new = held(_COMBINE[name](read(current), read(new)), kind)
            memory[place] = to_memory(new, kind)[0]
        return before

    return builder.bind(op, update)
