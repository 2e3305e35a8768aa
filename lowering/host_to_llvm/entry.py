"""Writes the entry of the host program, `cuesta_main`: one short call for each op that has an effect.

Each step reads its data from its own constant table; steps.py describes the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.aten import decode_call, find_overload
from cuesta.dialects.host.aten_abi import (
    OUT_ENTRIES,
    PACKED_PRODUCT,
    HeldWord,
    Items,
    Number,
    Present,
    TensorWord,
    Text,
    Undefined,
    Word,
    dispatcher_words,
    dtype_code,
)
from cuesta.dialects.host.packed_convolutions import PACKED_CONVOLUTIONS
from cuesta.dialects.host.typed_entries import typed_entry
from cuesta.dialects.kernel_module import launch_parameters
from cuesta.errors import Unsupported
from cuesta.huge_pages import may_come_large
from cuesta.lowering.host_to_llvm import bounds_step, tensor_steps, typed_step
from cuesta.lowering.host_to_llvm.argument_table import arguments_table, check_function
from cuesta.lowering.host_to_llvm.launch_step import PACKED, Kernel
from cuesta.lowering.host_to_llvm.layout import HostLayout, Metadata, Value
from cuesta.lowering.host_to_llvm.needed import needed
from cuesta.lowering.host_to_llvm.steps import FAST_TO_COMPILE, I64, PTR, at
from cuesta.runtime.executable import CHECK
from cuesta.sizes import Number as SizeNumber
from cuesta.sizes import Size, symbol
from cuesta.targets import DEVICE_CODES
from cuesta.torch_private.ops import schema_of

ENTRY = "cuesta_main"


@dataclass
class EntryWriter:
    """Writes the text of the entry of one host function."""

    layout: HostLayout
    kernels: dict[str, Kernel]
    body: list[str] = field(default_factory=list)
    globals: dict[tuple[SizeNumber, ...], str] = field(default_factory=dict)  # table → its name
    #: the tables that depend on the call's sizes, one after another, and where each begins
    words: list[SizeNumber] = field(default_factory=list)
    starts: dict[tuple[SizeNumber, ...], int] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)  # name → definition of each helper made for this program
    functions: dict[str, None] = field(default_factory=dict)  # the functions of kernels that are run
    names: int = 0

    def write(self) -> str:
        """Tables, helpers, the entry, and declarations of what they call."""
        for op in self.layout.operations:
            self._op(op)
        check = self._check() if self.layout.arguments else ""
        entry = "\n".join([*self._head(), *self.body, *self._tail()])
        tables = [_global(name, numbers) for numbers, name in self.globals.items()]
        kernels = [f'llvm.func @"{PACKED}{function}"({PTR})' for function in self.functions]
        own = list(self.helpers.values())
        return "\n".join([*tables, *kernels, *own, check, entry, *needed([entry, check, *own])])

    def _head(self) -> list[str]:
        handles = len(self.layout.handles)
        record = bounds_step.RECORD_WORDS if self.layout.checked else 0
        lines = [
            f"llvm.func @{ENTRY}(%slots: {PTR}) -> i32 attributes {{{FAST_TO_COMPILE}}} {{",
            "  %good = llvm.mlir.constant(0 : i32) : i32",
            "  %one = llvm.mlir.constant(1 : i64) : i64",
            f"  %words = llvm.mlir.constant({max(2 * handles + record, 1)} : i64) : i64",
            f"  %frame = llvm.alloca %words x i64 : (i64) -> {PTR}",
            f"  {at('%tables', '%slots', self.layout.arguments + 3, PTR)}",
        ]
        if handles:
            lines += [
                "  %no_byte = llvm.mlir.constant(0 : i8) : i8",
                f"  %bytes = llvm.mlir.constant({16 * handles} : i64) : i64",
                f'  "llvm.intr.memset"(%frame, %no_byte, %bytes) <{{isVolatile = false}}> : ({PTR}, i8, i64) -> ()',
            ]
        if record:
            lines += bounds_step.empty_record(self.layout)
        if self.layout.arguments:
            lines += [
                f"  %all_fit = llvm.call @{CHECK}(%slots) : ({PTR}) -> i32",
                '  %fit = llvm.icmp "eq" %all_fit, %good : i32',
                "  llvm.cond_br %fit, ^fit, ^misfit",
                "^misfit:",
                "  llvm.return %all_fit : i32",
                "^fit:",
            ]
        return lines

    def _check(self) -> str:
        """The function that checks the arguments; it is separate because recorded programs are checked, not run."""
        entry, self.body = self.body, []
        address = self._table(arguments_table(self.layout, self._shape))
        lines, self.body = self.body, entry
        return check_function(self.layout, lines, address)

    def _tail(self) -> list[str]:
        """The block that a failed step branches to: it deletes every tensor handle that the call owns."""
        lines = ["^failed(%code: i32):"]
        if self.layout.handles:
            lines += [
                f"  %held = llvm.mlir.constant({len(self.layout.handles)} : i64) : i64",
                f"  llvm.call @cuesta_delete(%frame, %held) : ({PTR}, i64) -> ()",
            ]
        if self.layout.released:
            lines += [
                f"  {at('%given', '%slots', self.layout.first_released)}",
                f"  %released = llvm.mlir.constant({len(self.layout.released)} : i64) : i64",
                f"  llvm.call @cuesta_delete(%given, %released) : ({PTR}, i64) -> ()",
            ]
        return [*lines, "  llvm.return %code : i32", "}"]

    # -- ops ----------------------------------------------------------------------------------
    def _op(self, op: ir.Operation) -> None:
        match op.name:
            case host.Arena.OPERATION_NAME | host.View.OPERATION_NAME:
                pass
            case host.Alloc.OPERATION_NAME:
                if op.results[0] in self.layout.handles:
                    self._allocate(op)
            case host.Launch.OPERATION_NAME if self.layout.target.gpu:
                self._gpu_launch(op)
            case host.Launch.OPERATION_NAME:
                self._launch(op)
            case host.Free.OPERATION_NAME:
                slot = self._handle(op.operands[0])
                self._add(f"llvm.call @cuesta_delete({slot}, %one) : ({PTR}, i64) -> ()")
            case host.Check.OPERATION_NAME if self.layout.target.gpu:
                pass  # reading the byte would make the host wait for the GPU
            case host.Check.OPERATION_NAME:
                self._step("cuesta_check", op, self._place(op.operands[0]))
            case host.Call.OPERATION_NAME:
                route = {"out": self._out_call, "shim": self._shim_call, "python": self._python_call}
                route[host.Call.route.of(op)](op)
            case func.ReturnOp.OPERATION_NAME:
                self._return()
            case _:
                raise Unsupported(f"{op.name} is not an op of a host function, at {op.location}")

    def _allocate(self, op: ir.Operation) -> None:
        (base,) = op.results
        returned = self.layout.returned.get(base)
        metadata = returned.metadata if returned else Metadata.of(base)
        large = not self.layout.target.gpu and may_come_large(metadata.nbytes)
        self._step("cuesta_allocate_large" if large else "cuesta_allocate", op, self._result(base, metadata))

    def _launch(self, op: ir.Operation) -> None:
        kernel = host.Launch.kernel.of(op)
        sizes, extents, known = launch_parameters(op), self.layout.extents_of(op), self.kernels.get(kernel)
        places = [word for v in op.operands for word in self._place(v)]
        if self.layout.checked:
            places += bounds_step.record_place(self.layout)
        given = len(places) // 2, len(extents) + len(sizes)
        if known is None or known.takes != given:
            what = "does not exist" if known is None else f"takes {_operands(*known.takes)}, not {_operands(*given)}"
            raise Unsupported(f"kernel @{kernel} {what}, at {op.location}")
        threads = self.layout.arguments + 1
        table = known.table(threads, places, sizes, extents)
        functions = [self._function(name) for name in known.functions(kernel)]
        passed = ", ".join(["%slots", "%frame", self._table(table), *functions])
        self._add(f"llvm.call @cuesta_run({passed}) : ({', '.join([PTR] * 5)}) -> ()")
        if self.layout.checked:
            self._step("cuesta_bounds", op, [*bounds_step.record_place(self.layout), threads])

    def _function(self, name: str | None) -> str:
        """The address of the JIT's wrapper of a kernel's function; null if there is no such function."""
        address = self._name()
        if name is None:
            self._add(f"{address} = llvm.mlir.zero : {PTR}")
        else:
            self.functions[name] = None
            self._add(f'{address} = llvm.mlir.addressof @"{PACKED}{name}" : {PTR}')
        return address

    def _gpu_launch(self, op: ir.Operation) -> None:
        buffers = [word for v in op.operands for word in self._place(v)]
        versions, sizes = self.layout.versions_of(op), launch_parameters(op)
        number = self.layout.grid_of(op) if sizes or len(versions) > 1 else None
        kernel: SizeNumber = symbol(f"k{number}") if len(versions) > 1 else versions[0][0]
        programs: SizeNumber = -1 if number is None else symbol(f"g{number}")
        stream = self.layout.arguments + 1
        if self.layout.target.kind == "tt":  # its interpreter takes the extents after the kernel's sizes
            sizes = [*sizes, *self.layout.extents_of(op)]
        overlaps = int(host.Launch.overlaps.is_on(op))
        head = [kernel, len(op.operands), len(sizes), stream, programs, overlaps]
        self._step("cuesta_launch", op, [*head, *buffers, *sizes])

    def _out_call(self, op: ir.Operation) -> None:
        overload = host.Call.overload.of(op)
        if overload == PACKED_PRODUCT:
            self._step("cuesta_packed_mm", op, self._tensors(op, range(3)))
            return
        name, names = OUT_ENTRIES[overload]
        entry = f"aoti_torch_{self.layout.device.type}_{name}"
        _, keywords = decode_call(host.Call.args.of(op), list(op.operands))
        helper = f"cuesta_{name}"
        if helper not in self.helpers:
            self.helpers[helper] = tensor_steps.out_helper(helper, entry, len(op.operands), len(names))
        scalars = [_word_of(struct.pack("<d", keywords.get(name, 1))) for name in names]
        self._step(helper, op, scalars + self._tensors(op, range(len(op.operands))))

    def _python_call(self, op: ir.Operation) -> None:
        # The handles of one call's results are adjacent in the frame.
        first = self.layout.handles[op.results[0]] if op.results else 0
        tensors = self._tensors(op, range(len(op.operands)))
        callback = self.layout.arguments + 2
        numbers = [self.layout.calls[op], callback, len(op.operands), len(op.results), first]
        where_results = 1 + len(numbers) + 1 + len(tensors)
        results = [number for item in self._results(op).values() for number in item]
        self._step("cuesta_python", op, [*numbers, where_results, *tensors, *results])

    def _shim_call(self, op: ir.Operation) -> None:
        overload = host.Call.overload.of(op)
        words = dispatcher_words(overload, host.Call.args.of(op))
        if words is None:
            raise Unsupported(f"{overload} cannot be called through torch's dispatcher, at {op.location}")
        called = PACKED_CONVOLUTIONS.get(overload, overload)
        namespace, name, variant = called.split(".")
        returns, results = schema_of(find_overload(called)).returns, self._results(op)
        parts: list[list[SizeNumber]] = [
            _string(f"{namespace}::{name}")[1:],
            _string("" if variant == "default" else variant)[1:],
            [number for word in words for number in self._word(op, word)],
            [number for i, r in enumerate(returns) for number in results.get(i, _dropped(r))],
        ]
        starts, start = [], 7
        for part in parts:
            starts.append(start)
            start += len(part)
        helper = "cuesta_dispatch"
        entry = typed_entry(overload, self._device_type(op))
        if entry is not None:
            helper = f"typed.{name}"
            self.helpers.setdefault(helper, typed_step.typed_helper(helper, entry))
        self._step(helper, op, [len(words), len(returns), *starts, *(n for part in parts for n in part)])

    def _device_type(self, op: ir.Operation) -> str:
        """The type of the device whose kernels a call runs."""
        device = host.Call.device.find(op)
        return self.layout.device.type if device is None else torch.device(device).type

    def _return(self) -> None:
        for number, base in enumerate(self.layout.returned.values()):
            if base.owner != "caller":
                handle = self._at("%frame", base.root.index, I64)
                slot = self._at("%slots", self.layout.first_base + number)
                self._add(f"llvm.store {handle}, {slot} : i64, {PTR}")
        self._add("llvm.return %good : i32")

    # -- tables -------------------------------------------------------------------------------
    def _place(self, value: Value) -> list[SizeNumber]:
        """The root of a value and its offset in bytes, as words of a table."""
        place = self.layout.places[value]
        index = place.root.index
        return [-1 - (len(self.layout.handles) + index) if place.root.in_frame else index, place.offset]

    def _tensors(self, op: ir.Operation, operands: Sequence[int]) -> list[SizeNumber]:
        dtypes = host.operand_dtypes(op)
        numbers: list[SizeNumber] = []
        for i in operands:
            value, metadata = op.operands[i], Metadata.of(op.operands[i], dtypes[i])
            kept = -1 if op in self.layout.calls else self.layout.kept_slot(value, metadata)
            numbers += [*self._place(value), kept, *self._shape(value, metadata)]
        return numbers

    def _result(self, base: Value, metadata: Metadata) -> list[SizeNumber]:
        handle = self.layout.handles[base]
        return [handle, len(self.layout.handles) + handle, 0, *self._shape(base, metadata)]

    def _shape(self, value: Value, metadata: Metadata) -> list[SizeNumber]:
        device = self.layout.device_of(value)
        where = [DEVICE_CODES[device.type], device.index or 0]
        return [len(metadata.sizes), dtype_code(metadata.dtype), *where, *metadata.sizes, *metadata.strides]

    def _results(self, op: ir.Operation) -> dict[int, list[SizeNumber]]:
        """Position of each of an op's results among the overload's results, of which there may be more → its item."""
        kept = host.Call.positions.find(op) or range(len(op.results))
        results = zip(kept, op.results, host.result_dtypes(op), strict=True)
        return {i: self._result(result, Metadata.of(result, dtype)) for i, result, dtype in results}

    def _word(self, op: ir.Operation, word: Word) -> list[SizeNumber]:
        match word:
            case Number(bits):
                return [0, bits]
            case TensorWord(index):
                return [1, *self._tensors(op, [index])]
            case HeldWord(index, position):
                root, offset = self._place(op.operands[index])
                return [6, root, offset + 8 * position]
            case Present(inner):
                return [2, *self._word(op, inner)]
            case Items(inner_words):
                return [3, len(inner_words), *(n for w in inner_words for n in self._word(op, w))]
            case Text(value):
                return [4, *_string(value)]
            case Undefined():
                return [5]

    # -- text ---------------------------------------------------------------------------------
    def _step(self, function: str, op: ir.Operation, table: Sequence[SizeNumber]) -> None:
        """Adds the call of a step, and a branch to ^failed in case the step fails."""
        address = self._table([self.layout.steps[op], *table])
        code, passed = self._name(), self._name()
        on = f"^on{self.names}"
        self._add(
            f'{code} = llvm.call @"{function}"(%slots, %frame, {address}) : ({PTR}, {PTR}, {PTR}) -> i32',
            f'{passed} = llvm.icmp "eq" {code}, %good : i32',
            f"llvm.cond_br {passed}, {on}, ^failed({code} : i32)",
        )
        self.body.append(f"{on}:")

    def _handle(self, base: Value) -> str:
        """The address of a handle that the program deletes."""
        if base in self.layout.handles:
            return self._at("%frame", self.layout.handles[base])
        return self._at("%slots", self.layout.first_released + self.layout.released.index(base))

    def _table(self, numbers: Sequence[SizeNumber]) -> str:
        key = tuple(numbers)
        if any(isinstance(n, Size) for n in key):
            if key not in self.starts:
                self.starts[key] = len(self.words)
                self.words += key
            return self._at("%tables", self.starts[key])
        name = self.globals.setdefault(key, f"table_{len(self.globals)}")
        address = self._name()
        self._add(f"{address} = llvm.mlir.addressof @{name} : {PTR}")
        return address

    def _at(self, array: str, index: int, load: str = "") -> str:
        """Computes the address of a word of an array, or loads its value if `load` names a type; returns the name."""
        name = self._name()
        self._add(at(name, array, index, load))
        return name

    def _name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def _add(self, *lines: str) -> None:
        self.body += [f"  {line}" for line in lines]


def _word_of(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _operands(buffers: int, sizes: int) -> str:
    return f"{buffers} buffers" + (f" and {sizes} sizes" if sizes else "")


def _string(text: str) -> list[SizeNumber]:
    """The count of bytes, then the bytes as words, padded with at least one zero."""
    data = text.encode()
    padded = data + bytes(8 - len(data) % 8)
    return [len(data), *(_word_of(padded[i : i + 8]) for i in range(0, len(padded), 8))]


def _dropped(returned: Any) -> list[SizeNumber]:
    """The item of a result that nobody reads."""
    return [-1 if returned.type.kind() == "TensorType" else -2, *[0] * 6]


def _global(name: str, numbers: Sequence[SizeNumber]) -> str:
    words = [signed(n) for n in numbers]
    kind = f"tensor<{len(words)}xi64>"
    return f"llvm.mlir.global constant @{name}(dense<{words}> : {kind}) : !llvm.array<{len(words)} x i64>"


def signed(word: SizeNumber) -> SizeNumber:
    """A word as a signed number, as MLIR and struct expect it."""
    return word - (1 << 64) if isinstance(word, int) and word >= 1 << 63 else word
