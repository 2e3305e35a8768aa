"""Writes the entry of the host program, `cuesta_main`, as text in the LLVM dialect.

Straight-line code: each op reads the addresses it needs from the slots or the frame, so nothing but
those two is live across ops, and the entry compiles fast without any optimisation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects.aten import decode_call, find_overload
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.host import aten_abi
from cuesta.dialects.host.aten_abi import OUT_ENTRIES, Items, Number, Present, TensorWord, Text, Word
from cuesta.errors import Unsupported
from cuesta.lowering.host_to_llvm.layout import HostLayout, Metadata, Value
from cuesta.lowering.host_to_llvm.shim import DECLARATIONS, HELPERS

ENTRY = "cuesta_main"
KERNEL_PREFIX = "kernel."

_CALLED = re.compile(r"llvm\.call @(\w+)")


@dataclass
class EntryWriter:
    """The text of the entry of one host function."""

    layout: HostLayout
    kernel_operands: dict[str, int]  # kernel → how many pointers it takes
    body: list[str] = field(default_factory=list)
    globals: dict[tuple[str, object], str] = field(default_factory=dict)  # (kind, content) → name
    definitions: list[str] = field(default_factory=list)
    scratch: int = 1  # words that a call of the program needs at most
    stack: int = 1  # words of the dispatcher's stack, likewise
    names: int = 0

    def write(self) -> str:
        """Globals, the entry, and the helpers and declarations that they need."""
        for op in self.layout.operations:
            self._op(op)
        frame = max(2 * len(self.layout.handles), 1)
        head = [
            f'llvm.func @{ENTRY}(%slots: !llvm.ptr) -> i32 attributes {{passthrough = ["noinline", "optnone"]}} {{',
            *(f"  %one_{n} = llvm.mlir.constant({n} : i64) : i64" for n in sorted({frame, self.scratch, self.stack})),
            f"  %frame = llvm.alloca %one_{frame} x i64 : (i64) -> !llvm.ptr",
            f"  %words = llvm.alloca %one_{self.scratch} x i64 : (i64) -> !llvm.ptr",
            f"  %stack = llvm.alloca %one_{self.stack} x i64 : (i64) -> !llvm.ptr",
        ]
        if self.layout.handles:
            head += [
                "  %no_byte = llvm.mlir.constant(0 : i8) : i8",
                f"  %frame_bytes = llvm.mlir.constant({8 * frame} : i64) : i64",
                '  "llvm.intr.memset"(%frame, %no_byte, %frame_bytes) <{isVolatile = false}>'
                " : (!llvm.ptr, i8, i64) -> ()",
            ]
        tail = ["^failed(%number: i32):"]
        if self.layout.handles:
            tail += [
                f"  %held = llvm.mlir.constant({len(self.layout.handles)} : i64) : i64",
                "  llvm.call @cuesta_delete_all(%frame, %held) : (!llvm.ptr, i64) -> ()",
            ]
        tail += ["  llvm.return %number : i32", "}"]
        entry = "\n".join([*head, *self.body, *tail])
        return "\n".join([*self.definitions, *self._kernel_declarations(), entry, *_needed(entry)])

    def _kernel_declarations(self) -> list[str]:
        """So that the text stands by itself; the kernels take their places."""
        return [
            f'llvm.func @"{KERNEL_PREFIX}{name}"({", ".join(["!llvm.ptr"] * operands + ["i64"])})'
            for name, operands in self.kernel_operands.items()
        ]

    # -- ops ----------------------------------------------------------------------------------
    def _op(self, op: ir.Operation) -> None:
        match op.name:
            case "host.arena" | "host.view":
                pass
            case "host.alloc":
                if op.results[0] in self.layout.handles:
                    descriptor = self._descriptor([self._owned_metadata(op.results[0])])
                    self._adopt("cuesta_allocate", op.results[0], descriptor, self.layout.steps[op])
            case "host.launch":
                self._launch(op)
            case "host.free":
                slot = self._element("%frame", self.layout.handles[op.operands[0]])
                self._call("cuesta_delete_all", f"{slot}, {self._i64(1)}", "(!llvm.ptr, i64) -> ()")
            case "host.check":
                byte = self._name()
                self._add(f"{byte} = llvm.load {self._address(op.operands[0])} : !llvm.ptr -> i8")
                self._fail_unless_zero(byte, "i8", self.layout.steps[op])
            case "host.aten":
                route = {"out": self._out_call, "shim": self._shim_call, "python": self._python_call}
                route[op.attributes["route"].value](op)
            case "func.return":
                self._return()
            case _:
                raise Unsupported(f"{op.name} has no place in a host function, at {op.location}")

    def _launch(self, op: ir.Operation) -> None:
        kernel = op.attributes["kernel"].value[-1]
        if self.kernel_operands.get(kernel) != len(op.operands):
            takes = self.kernel_operands.get(kernel)
            what = "is not there" if takes is None else f"takes {takes} buffers, not {len(op.operands)}"
            raise Unsupported(f"kernel @{kernel} {what}, at {op.location}")
        operands = [self._address(v) for v in op.operands]
        threads = self._load(self._element("%slots", self.layout.arguments + 1), "i64")
        types = ", ".join(["!llvm.ptr"] * len(operands) + ["i64"])
        arguments = ", ".join([*operands, threads])
        self._add(f'llvm.call @"{KERNEL_PREFIX}{kernel}"({arguments}) : ({types}) -> ()')

    def _out_call(self, op: ir.Operation) -> None:
        overload = op.attributes["overload"].value
        entry, scalars = OUT_ENTRIES[overload]
        count = len(op.operands)
        _, keywords = decode_call(op.attributes["args"].value, list(op.operands))
        step = self.layout.steps[op]
        self._wrap(op, range(count), step)
        handles = [self._load(self._element("%words", i), "!llvm.ptr") for i in (count - 1, *range(count - 1))]
        numbers = []
        for name in scalars:
            numbers.append(self._name())
            self._add(f"{numbers[-1]} = llvm.mlir.constant({float(keywords.get(name, 1)):.17e} : f64) : f64")
        types = ", ".join(["!llvm.ptr"] * count + ["f64"] * len(numbers))
        code = self._call(entry, ", ".join(handles + numbers), f"({types}) -> i32")
        self._call("cuesta_delete_all", f"%words, {self._i64(count)}", "(!llvm.ptr, i64) -> ()")
        self._fail_unless_zero(code, "i32", step)

    def _python_call(self, op: ir.Operation) -> None:
        step = self.layout.steps[op]
        self._wrap(op, range(len(op.operands)), step)
        callback = self._load(self._element("%slots", self.layout.arguments + 2), "!llvm.ptr")
        # The handles of one call's results stand side by side.
        first = self.layout.handles[op.results[0]] if op.results else 0
        results = self._element("%frame", first)
        code = self._name()
        # Deletes the operands' handles itself.
        self._add(
            f"{code} = llvm.call {callback}({self._i64(self.layout.calls[op])}, %words, {results})"
            " : !llvm.ptr, (i64, !llvm.ptr, !llvm.ptr) -> i32"
        )
        self._fail_unless_zero(code, "i32", step)
        self._adopt_results(op)

    def _shim_call(self, op: ir.Operation) -> None:
        overload = op.attributes["overload"].value
        words = aten_abi.dispatcher_words(overload, op.attributes["args"].value)
        if words is None:
            raise Unsupported(f"{overload} cannot go through the shim's dispatcher, at {op.location}")
        step = self.layout.steps[op]
        order = aten_abi.operand_order(words)
        self._wrap(op, order, step)
        handles = iter(range(len(order)))
        stack = [self._word(word, handles) for word in words]
        for i, word in enumerate(stack):
            self._add(f"llvm.store {word}, {self._element('%stack', i)} : i64, !llvm.ptr")
        namespace, name, variant = overload.split(".")
        names = [self._string(f"{namespace}::{name}"), self._string("" if variant == "default" else variant)]
        code = self._call(
            "aoti_torch_call_dispatcher", f"{names[0]}, {names[1]}, %stack", "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32"
        )
        self._fail_unless_zero(code, "i32", step)
        returned = len(find_overload(overload)._schema.returns)
        self.stack = max(self.stack, len(words), returned)
        kept = ints(op.attributes["positions"]) if "positions" in op.attributes else range(len(op.results))
        for position, result in zip(kept, op.results, strict=True):
            handle = self._load(self._element("%stack", position), "i64")
            target = self._element("%frame", self.layout.handles[result])
            self._add(f"llvm.store {handle}, {target} : i64, !llvm.ptr")
        for position in set(range(returned)) - set(kept):
            slot = self._element("%stack", position)
            self._call("cuesta_delete_all", f"{slot}, {self._i64(1)}", "(!llvm.ptr, i64) -> ()")
        self._adopt_results(op)

    def _word(self, word: Word, handles: object) -> str:
        """The i64 that a word of the dispatcher becomes; takes the next handle of %words for a tensor."""
        match word:
            case Number(bits):
                return self._i64(bits - (1 << 64) if bits >> 63 else bits)
            case TensorWord():
                return self._load(self._element("%words", next(handles)), "i64")  # type: ignore[call-overload]
            case Present(inner):
                return self._call("cuesta_present", self._word(inner, handles), "(i64) -> i64")
            case Text(value):
                size = self._i64(len(value.encode()))
                return self._call("cuesta_text", f"{self._string(value)}, {size}", "(!llvm.ptr, i64) -> i64")
            case Items(inner_words):
                if all(isinstance(w, Number) for w in inner_words):
                    items = self._array([w.bits for w in inner_words if isinstance(w, Number)])
                else:
                    # Operands' handles may lie behind: the list is gathered above them.
                    base = self.scratch
                    self.scratch += len(inner_words)
                    for i, inner_word in enumerate(inner_words):
                        value = self._word(inner_word, handles)
                        self._add(f"llvm.store {value}, {self._element('%words', base + i)} : i64, !llvm.ptr")
                    items = self._element("%words", base)
                size = self._i64(len(inner_words))
                return self._call("cuesta_list", f"{items}, {size}", "(!llvm.ptr, i64) -> i64")
        raise AssertionError(word)

    def _return(self) -> None:
        for number, base in enumerate(self.layout.returned.values()):
            if base.owner == "torch":
                handle = self._load(self._element("%frame", base.root.index), "i64")
                slot = self._element("%slots", self.layout.arguments + 3 + number)
                self._add(f"llvm.store {handle}, {slot} : i64, !llvm.ptr")
        code = self._name()
        self._add(f"{code} = llvm.mlir.constant(0 : i32) : i32", f"llvm.return {code} : i32")

    # -- pieces -------------------------------------------------------------------------------
    def _wrap(self, op: ir.Operation, order: Sequence[int], step: int) -> None:
        """Handles of the operands in `order`, in %words."""
        if not order:
            return
        dtypes = [d.value for d in op.attributes["dtypes"]]
        self.scratch = max(self.scratch, len(order))
        for i, operand in enumerate(order):
            address = self._address(op.operands[operand])
            self._add(f"llvm.store {address}, {self._element('%words', i)} : !llvm.ptr, !llvm.ptr")
        descriptor = self._descriptor([Metadata.of(op.operands[i], dtypes[i]) for i in order])
        arguments = f"%words, {descriptor}, {self._i64(len(order))}"
        code = self._call("cuesta_wrap_all", arguments, "(!llvm.ptr, !llvm.ptr, i64) -> i32")
        self._fail_unless_zero(code, "i32", step)

    def _adopt_results(self, op: ir.Operation) -> None:
        dtypes = [d.value for d in op.attributes["dtypes"]][len(op.operands) :]
        for result, dtype in zip(op.results, dtypes, strict=True):
            descriptor = self._descriptor([Metadata.of(result, dtype)])
            self._adopt("cuesta_adopt", result, descriptor, -self.layout.steps[op])

    def _adopt(self, helper: str, value: Value, descriptor: str, failure: int) -> None:
        index = self.layout.handles[value]
        places = [self._element("%frame", i) for i in (index, len(self.layout.handles) + index)]
        code = self._call(helper, f"{descriptor}, {places[0]}, {places[1]}", "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32")
        self._fail_unless_zero(code, "i32", failure)

    def _owned_metadata(self, base: Value) -> Metadata:
        returned = self.layout.returned.get(base)
        return returned.metadata if returned else Metadata.of(base)

    def _address(self, value: Value) -> str:
        place = self.layout.places[value]
        if place.root.in_frame:
            slot = self._element("%frame", len(self.layout.handles) + place.root.index)
        else:
            slot = self._element("%slots", place.root.index)
        base = self._load(slot, "!llvm.ptr")
        if not place.offset:
            return base
        address = self._name()
        self._add(f"{address} = llvm.getelementptr {base}[{place.offset}] : (!llvm.ptr) -> !llvm.ptr, i8")
        return address

    def _element(self, array: str, index: int) -> str:
        if index == 0:
            return array
        address = self._name()
        self._add(f"{address} = llvm.getelementptr {array}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64")
        return address

    def _load(self, address: str, kind: str) -> str:
        name = self._name()
        self._add(f"{name} = llvm.load {address} : !llvm.ptr -> {kind}")
        return name

    def _i64(self, value: int) -> str:
        name = self._name()
        self._add(f"{name} = llvm.mlir.constant({value} : i64) : i64")
        return name

    def _call(self, function: str, arguments: str, kind: str) -> str:
        """Calls a function by name; the value it returns, or "" where it returns none."""
        if kind.endswith("()"):
            self._add(f"llvm.call @{function}({arguments}) : {kind}")
            return ""
        name = self._name()
        self._add(f"{name} = llvm.call @{function}({arguments}) : {kind}")
        return name

    def _fail_unless_zero(self, code: str, kind: str, failure: int) -> None:
        zero, good, number = self._name(), self._name(), self._name()
        on = f"^step{self.names}"
        self._add(
            f"{zero} = llvm.mlir.constant(0 : {kind}) : {kind}",
            f'{good} = llvm.icmp "eq" {code}, {zero} : {kind}',
            f"{number} = llvm.mlir.constant({failure} : i32) : i32",
            f"llvm.cond_br {good}, {on}, ^failed({number} : i32)",
        )
        self.body.append(f"{on}:")

    def _descriptor(self, tensors: Sequence[Metadata]) -> str:
        numbers: list[int] = []
        for t in tensors:
            numbers += [len(t.sizes), aten_abi.dtype_code(t.dtype), *t.sizes, *t.strides]
        return self._array(numbers)

    def _array(self, numbers: Sequence[int]) -> str:
        """The address of a constant array of i64."""
        signed = [n - (1 << 64) if n >> 63 == 1 else n for n in numbers] or [0]
        content = f"dense<{signed}> : tensor<{len(signed)}xi64>"
        return self._global("array", content, f"!llvm.array<{len(signed)} x i64>")

    def _string(self, text: str) -> str:
        data = text.encode() + b"\0"
        escaped = "".join(f"\\{b:02X}" for b in data)
        return self._global("string", f'"{escaped}"', f"!llvm.array<{len(data)} x i8>")

    def _global(self, kind: str, content: str, of_type: str) -> str:
        name = self.globals.get((kind, content))
        if name is None:
            name = self.globals[kind, content] = f"cuesta_{kind}_{len(self.globals)}"
            self.definitions.append(f"llvm.mlir.global constant @{name}({content}) : {of_type}")
        address = self._name()
        self._add(f"{address} = llvm.mlir.addressof @{name} : !llvm.ptr")
        return address

    def _name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def _add(self, *lines: str) -> None:
        self.body += [f"  {line}" for line in lines]


def _needed(text: str) -> list[str]:
    """The helpers that `text` calls, those that they call, and the declarations of torch's functions."""
    found: dict[str, str] = {}
    pending = [text]
    while pending:
        for name in _CALLED.findall(pending.pop()):
            if name in found:
                continue
            if name in HELPERS:
                found[name] = HELPERS[name]
                pending.append(HELPERS[name])
            elif name in DECLARATIONS:
                found[name] = f"llvm.func @{name}{DECLARATIONS[name]}"
    return list(found.values())
