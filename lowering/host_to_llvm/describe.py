"""Describes a planned host function for the runtime, as plain JSON that runtime/executable.py reads."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.dialects.graph_function import BUFFERS, MEMORY, donated_arguments
from cuesta.dialects.host.operands import ACCESSES, Region, memory_of, name_of, operands_of
from cuesta.dialects.kernel_module import launched_kernels
from cuesta.dialects.types import byte_size, memref_shape
from cuesta.lowering.host_to_llvm import host_function
from cuesta.lowering.host_to_llvm.layout import HostLayout, Metadata, Value, read_host
from cuesta.runtime.schema.calls import Call
from cuesta.runtime.schema.program import (
    Argument,
    Kernel,
    LaunchStep,
    Memory,
    Operand,
    PlacedBuffer,
    Program,
    Result,
    Step,
)
from cuesta.runtime.schema.report import Origin
from cuesta.runtime.schema.tensors import Tensor
from cuesta.sizes import Number, Size

_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_NAME = re.compile(r'(?:loc\(|(?<=[\[ ]))"([^"]+)"\(')


def describe(module: ir.Module) -> Program:
    """The metadata of the only host function of `module`, after plan-memory and before host-to-llvm.

    Sizes and offsets are in elements, memory in bytes; see runtime/executable.py for each key, and
    runtime/schema/program.py for its valid values.
    """
    with module.context, ir.Location.unknown():
        layout = read_host(host_function(module))
        memory = MEMORY.find(layout.function) or {}
        donated = {layout.places[argument].root.index for argument in donated_arguments(layout.function)}
        written = layout.written()
        program: Program = {
            "arguments": [_argument(layout, value) for value in layout.block.arguments],
            "arena": _spelled(_arena_bytes(layout)),
            "buffers": _buffers(layout),
            "words": [],
            "grids": [
                _row([_row(kernel, _spelled(unless)) for kernel, unless in versions], [_spelled(n) for n in sizes])
                for versions, sizes in layout.grids
            ],
            "keeps_arena": True,
            "memory": memory,
            "bases": [{"owner": b.owner, **_tensor(b.metadata)} for b in layout.returned.values()],
            "kept": len(layout.kept),
            "released": [layout.places[argument].root.index for argument in layout.released],
            "results": [_result(layout, value, metadata) for value, metadata in layout.results()],
            "calls": [_call(op) for op in layout.calls],
            "steps": [_step(op, layout) for op in layout.steps],
            "target": str(layout.target),
            "device": str(layout.device),
            "elsewhere": sorted({str(device) for device in layout.devices.values()}),
            "mutates": [i for i in written if i not in donated],
            "lent": [i for i in written if i in donated],
            "unread": [i for i, value in enumerate(layout.block.arguments) if next(iter(value.uses), None) is None],
            "kernels": _kernels(layout) if layout.target.gpu else [],
            "late": [],
            "assumed": {},
        }
        if layout.checked:
            program["checked"] = {"operands": _operands(layout), "accesses": []}
        return program


def add_accesses(program: Program, module: ir.Module) -> None:
    """Moves the accesses of a checked module's kernels, which the lowering left in an attribute, to the metadata."""
    accesses = ACCESSES.find(module.operation)
    if accesses is not None:
        program["checked"]["accesses"] = [_row(*(cell.value for cell in row)) for row in accesses]
        ACCESSES.drop(module.operation)


def _row(*cells: object) -> Any:
    """A row that the schema's types give as a tuple. JSON has lists only."""
    return list(cells)


def _kernels(layout: HostLayout) -> list[Kernel]:
    """A row for each kernel. A version that the traced sizes do not run is late: compiled once a call needs it."""
    first = {launched_kernels(op)[0] for op in layout.operations if host.Launch.matches(op)}
    rows = [{"name": name, "late": name not in first, "made": name in first} for name in layout.kernels]
    return cast(list[Kernel], rows)  # compiling them adds the other fields


def _tensor(metadata: Metadata) -> Tensor:
    sizes, strides = ([_spelled(n) for n in numbers] for numbers in (metadata.sizes, metadata.strides))
    return {"sizes": sizes, "strides": strides, "dtype": metadata.dtype}


def _spelled(number: Number) -> int | str:
    """A number for JSON: text if it depends on the call's sizes."""
    return str(number) if isinstance(number, Size) else number


def _buffers(layout: HostLayout) -> list[PlacedBuffer]:
    """Bytes, first and last step of each buffer in an arena whose offsets depend on the call."""
    return [_row(*(_spelled(n) for n in row)) for row in BUFFERS.find(layout.function) or []]


def _argument(layout: HostLayout, value: Value) -> Argument:
    """What the program expects of an argument; names its device only if that is not the program's."""
    tensor = _tensor(layout.argument(value))
    argument: Argument = {"sizes": tensor["sizes"], "strides": tensor["strides"], "dtype": tensor["dtype"]}
    if value in layout.devices:
        argument["device"] = str(layout.devices[value])
    return argument


def _operands(layout: HostLayout) -> list[Operand]:
    """The operands whose bounds depend on the call's sizes, so that only a call can check them; without duplicates."""
    rows: list[Operand] = []
    for operand in operands_of(layout.block):
        memory = Region.of(operand.base)
        numbers = (operand.offset, operand.region.nbytes, memory.nbytes)
        is_whole = operand.region == memory and operand.offset == 0
        if not is_whole and any(isinstance(n, Size) for n in numbers):
            row: Operand = {
                "what": f"{operand.what} ({name_of(operand.base)})",
                "offset": _spelled(operand.offset),
                **_region(operand.region),
                "memory": _region(memory),
            }
            if row not in rows:
                rows.append(row)
    return rows


def _region(region: Region) -> Memory:
    sizes, strides = ([_spelled(n) for n in numbers] for numbers in (region.sizes, region.strides))
    return {"sizes": sizes, "strides": strides, "itemsize": region.itemsize}


def _arena_bytes(layout: HostLayout) -> Number:
    for op in layout.operations:
        if host.Arena.matches(op):
            ((nbytes,), _) = memref_shape(op.results[0].type)
            return nbytes
    return 0


def _result(layout: HostLayout, value: Value, metadata: Metadata) -> Result:
    """Where a result is stored: in an argument or in a returned base, as the whole of it or at an offset."""
    base = layout.origins[value]
    offset = layout.places[value].offset // byte_size(metadata.dtype)
    if base in layout.returned:
        kind: Literal["base", "argument"] = "base"
        index = list(layout.returned).index(base)
        whole = layout.returned[base].metadata
    else:
        kind, index = "argument", layout.places[base].root.index
        whole = layout.argument(base)
    return {
        "kind": kind,
        "index": index,
        "offset": _spelled(offset),
        "whole": offset == 0 and whole == metadata,
        **_tensor(metadata),
    }


def _call(op: ir.Operation) -> Call:
    results = [Metadata.of(r, d) for r, d in zip(op.results, host.result_dtypes(op), strict=True)]
    return {
        "overload": host.Call.overload.of(op),
        "args": host.Call.args.of(op),
        "operands": len(op.operands),
        "results": [_tensor(r) for r in results],
        "positions": host.Call.positions.find(op),
    }


def _step(op: ir.Operation, layout: HostLayout) -> Step:
    """The facts of a step that its error messages need."""
    if host.Check.matches(op):
        raises = cast(Literal["IndexError", "RuntimeError"], host.raised_by(op))
        return {"kind": "check", "message": host.Check.message.of(op), "raises": raises}
    if host.Alloc.matches(op):
        base = layout.returned.get(op.results[0])
        allocated = _tensor(base.metadata if base else Metadata.of(op.results[0]))
        return {"kind": "allocation", **origin(op), **allocated}
    if host.Launch.matches(op):
        place: Origin = origin(op)
        launch: LaunchStep = {"kind": "launch", "kernel": host.Launch.kernel.of(op), "where": place["where"]}
        launch["node"] = place["node"]
        if layout.checked:
            launch["buffers"] = [name_of(memory_of(value)[0]) for value in op.operands]
        return launch
    results = [_tensor(Metadata.of(r)) for r in op.results]
    return {"kind": "call", "overload": host.Call.overload.of(op), **origin(op), "results": results}


def origin(op: ir.Operation) -> Origin:
    """Where an op comes from. `where` is the `file:line` of its Python code or, if unknown, the path of its module and
    the node's name. `node` is the name of the graph's node that made the op, "" if none did."""
    text = str(op.location)
    found, name = _FILE.search(text), _NAME.search(text)
    node = name.group(1).rpartition(":")[2] if name else ""
    if found is None:
        return {"where": "", "node": node}
    is_named = name is not None and name.start() == 0 and found.group(1) == "<graph>"
    return {"where": name.group(1) if name and is_named else f"{found.group(1)}:{found.group(2)}", "node": node}
