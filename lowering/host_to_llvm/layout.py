"""Assigns each value of a planned host function its place at run time, for both the lowering and the metadata.

The entry takes an array of 64-bit slots:

    | data of each argument | arena | threads or stream | callback | tables | list | each returned base
    | each released argument | address and handle of each tensor kept |

`tables` is the address of those words of the program's tables that depend on the call's sizes. `list` is the address
of the Python list of arguments: the program checks the tensors in the list, then stores their data addresses in the
slots of the arguments (argument_step.py).

A returned base is memory that holds results. If the caller allocates the base (owner "caller"), the caller puts its
address into the slot; otherwise the program stores the tensor handle of the base there at the end.
A released argument is freed by the program after its last use: the caller puts a tensor handle into the slot, and the
program deletes that handle, even if a step fails.
A kept tensor wraps memory of the program for a call into torch. Its handle stays in the slots, which are zeros at
first; the next call with the same slots reuses the handle if the memory is at the same address.
The entry's own stack frame holds a handle and a data address for each base that torch owns, returned or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.graph_function import DTYPE, STRIDES, argument_attributes, result_attributes
from cuesta.dialects.host.operands import CHECKED
from cuesta.dialects.kernel_module import conditions, launch_parameters, launched_kernels
from cuesta.dialects.top_module import DEVICE, device_of, target_of
from cuesta.dialects.types import memref_shape, spelled
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.program import Owner
from cuesta.sizes import Number
from cuesta.targets import CPU, Target

Value: TypeAlias = ir.Value
_START: Number = 0


@dataclass(frozen=True)
class Metadata:
    """Sizes and strides, in elements of the dtype."""

    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]
    dtype: str

    @staticmethod
    def of(value: Value, dtype: str | None = None) -> Metadata:
        """The metadata of a memref. `dtype` is given where the storage type does not tell bool from int8."""
        sizes, strides = memref_shape(value.type)
        return Metadata(sizes, strides, dtype or spelled(value.type.element_type))

    @property
    def nbytes(self) -> Number:
        """Bytes of the elements."""
        return math.prod(self.sizes) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class Root:
    """Where the address of a base is stored: in slot `index`, or in the frame, as the data of handle `index`."""

    in_frame: bool
    index: int


@dataclass(frozen=True)
class Place:
    """The first byte of a value, `offset` bytes from the address that a root holds."""

    root: Root
    offset: Number


#: A launch on a GPU: the versions of its kernel, each with its number and an expression that is 0 where the version is
#: valid, and the sizes that the launch passes. They decide which version runs, and in how many programs.
Grid: TypeAlias = tuple[tuple[tuple[int, Number], ...], tuple[Number, ...]]

#: Identifies a kept tensor.
Kept: TypeAlias = tuple[Place, Metadata, torch.device]


@dataclass(frozen=True)
class ReturnedBase:
    """Memory that holds results, and that the program does not free."""

    owner: Owner
    metadata: Metadata
    root: Root


@dataclass
class HostLayout:
    """The layout of a planned host function."""

    function: func.FuncOp
    places: dict[Value, Place] = field(default_factory=dict)
    origins: dict[Value, Value] = field(default_factory=dict)  # value → the base it is a view of
    returned: dict[Value, ReturnedBase] = field(default_factory=dict)  # by base, in the order of their slots
    released: list[Value] = field(default_factory=list)  # arguments that the program frees, in the order of their slots
    handles: dict[Value, int] = field(default_factory=dict)  # base that torch owns → index of its handle in the frame
    steps: dict[ir.Operation, int] = field(default_factory=dict)  # ops that may fail, counted from 1
    calls: dict[ir.Operation, int] = field(default_factory=dict)  # calls through Python, counted from 0
    kernels: dict[str, int] = field(default_factory=dict)  # launched kernels, counted from 0
    grids: dict[Grid, int] = field(default_factory=dict)  # grids that depend on the call's sizes, counted from 0
    devices: dict[Value, torch.device] = field(default_factory=dict)  # bases that are not on the program's device
    kept: dict[Kept, int] = field(default_factory=dict)  # kept tensors, counted from 0
    target: Target = CPU
    device: torch.device = torch.device("cpu")  # noqa: RUF009  immutable
    checked: bool = False  # whether kernels check each access, which takes more parameters

    @property
    def arguments(self) -> int:
        return len(self.block.arguments)

    @property
    def block(self) -> ir.Block:
        return self.function.regions[0].blocks[0]

    @property
    def operations(self) -> list[ir.Operation]:
        return [op.operation for op in self.block.operations]

    @property
    def slots(self) -> int:
        """How many slots the entry takes."""
        return self.first_released + len(self.released) + 2 * len(self.kept)

    @property
    def first_released(self) -> int:
        """The slot of the first released argument."""
        return self.first_base + len(self.returned)

    @property
    def first_base(self) -> int:
        """The slot of the first returned base."""
        return self.arguments + 5

    @property
    def list_slot(self) -> int:
        """The slot of the list of the arguments."""
        return self.arguments + 4

    def argument(self, value: Value) -> Metadata:
        """What the program expects of an argument."""
        own = argument_attributes(self.function)[self.places[value].root.index]
        return Metadata.of(value, DTYPE.find_in(own))

    def written(self) -> list[int]:
        """The numbers of the arguments whose memory the program writes."""
        written: list[Value] = []
        for op in self.operations:
            if host.Launch.matches(op):
                written += list(op.operands)[len(op.operands) - host.Launch.outputs.of(op) :]
            elif host.Call.matches(op) and host.Call.route.of(op) == "out":
                written.append(op.operands[len(op.operands) - 1])
        arguments = {argument: i for i, argument in enumerate(self.block.arguments)}
        return sorted({arguments[base] for value in written if (base := self.origins[value]) in arguments})

    def kept_slot(self, value: Value, metadata: Metadata) -> int:
        """The slot of a kept tensor's address; the slot of its handle follows."""
        number = self.kept[self.places[value], metadata, self.device_of(value)]
        return self.first_released + len(self.released) + 2 * number

    def versions_of(self, launch: ir.Operation) -> tuple[tuple[int, Number], ...]:
        """The number of each kernel that a launch may run, with a condition: the launch runs the first that has 0."""
        pairs = zip(launched_kernels(launch), conditions(launch), strict=True)
        return tuple((self.kernels[name], condition) for name, condition in pairs)

    def grid_of(self, launch: ir.Operation) -> int:
        """The number of a launch's grid among those that depend on the call's sizes."""
        return self.grids[self.versions_of(launch), tuple(launch_parameters(launch))]

    def extents_of(self, launch: ir.Operation) -> list[Number]:
        """The bytes of each buffer, which a checked kernel is passed; empty for a program that is not checked."""
        return host.Launch.extents.of(launch) if self.checked else []

    def device_of(self, value: Value) -> torch.device:
        """The device of a value's memory."""
        return self.devices.get(self.origins[value], self.device)

    def results(self) -> list[tuple[Value, Metadata]]:
        """The returned values and their metadata, with the strides that torch expects even of dims of size 1."""
        values = list(self.operations[-1].operands)
        wanted = zip(values, result_attributes(self.function), strict=True)
        return [(v, _as_wanted(Metadata.of(v), attributes)) for v, attributes in wanted]


def read_host(function: func.FuncOp) -> HostLayout:
    """The layout of a host function after plan-memory has run."""
    module = function.operation.parent
    checked = CHECKED.is_on(module)
    layout = HostLayout(function, target=target_of(module), device=device_of(module), checked=checked)
    given = zip(layout.block.arguments, argument_attributes(function), strict=True)
    for i, (argument, attributes) in enumerate(given):
        _add_base(layout, argument, Root(False, i))
        device = DEVICE.find_in(attributes)
        if device is not None:
            layout.devices[argument] = torch.device(device)
    returns = _returned_bases(layout)
    for op in layout.operations:
        match op.name:
            case host.Arena.OPERATION_NAME:
                _add_base(layout, op.results[0], Root(False, layout.arguments))
            case host.Alloc.OPERATION_NAME:
                _add_alloc(layout, op, returns)
            case host.View.OPERATION_NAME:
                source = layout.places[op.operands[0]]
                place = Place(source.root, source.offset + host.View.offset.of(op))
                layout.places[op.results[0]] = place
                layout.origins[op.results[0]] = layout.origins[op.operands[0]]
            case host.Call.OPERATION_NAME:
                layout.steps[op] = len(layout.steps) + 1
                if host.Call.route.of(op) == "python":
                    layout.calls[op] = len(layout.calls)
                else:
                    _keep_operands(layout, op)
                device = host.Call.device.find(op)
                for result, dtype in zip(op.results, host.result_dtypes(op), strict=True):
                    _add_owned(layout, result, "aten", Metadata.of(result, dtype), returns)
                    if device is not None:
                        layout.devices[result] = torch.device(device)
            case host.Launch.OPERATION_NAME:
                for name in launched_kernels(op):
                    layout.kernels.setdefault(name, len(layout.kernels))
                if layout.target.gpu or checked:
                    layout.steps[op] = len(layout.steps) + 1
                if layout.target.gpu:
                    _add_grid(layout, op)
            case host.Check.OPERATION_NAME if not layout.target.gpu:
                layout.steps[op] = len(layout.steps) + 1
            case host.Free.OPERATION_NAME if isinstance(op.operands[0].owner, ir.Block):
                layout.released.append(op.operands[0])
    # Slots in the order of the results, so that metadata and code count them alike.
    layout.returned = {base: layout.returned[base] for base in returns if base in layout.returned}
    return layout


def _add_grid(layout: HostLayout, launch: ir.Operation) -> None:
    sizes, versions = launch_parameters(launch), layout.versions_of(launch)
    if sizes or len(versions) > 1:  # an offset alone may decide between versions
        layout.grids.setdefault((versions, tuple(sizes)), len(layout.grids))


def _keep_operands(layout: HostLayout, op: ir.Operation) -> None:
    for value, dtype in zip(op.operands, host.operand_dtypes(op), strict=True):
        key = (layout.places[value], Metadata.of(value, dtype), layout.device_of(value))
        layout.kept.setdefault(key, len(layout.kept))


def _add_base(layout: HostLayout, value: Value, root: Root) -> None:
    layout.places[value] = Place(root, 0)
    layout.origins[value] = value


def _add_alloc(
    layout: HostLayout, op: ir.Operation, returns: dict[Value, list[tuple[Value, Metadata, Number]]]
) -> None:
    (value,) = op.results
    metadata = _allocated_as(value, returns.get(value, []))
    if host.Alloc.owner.of(op) == "caller":
        root = Root(False, layout.first_base + list(returns).index(value))
        _add_base(layout, value, root)
        layout.returned[value] = ReturnedBase("caller", metadata, root)
        return
    layout.steps[op] = len(layout.steps) + 1
    _add_owned(layout, value, "torch", metadata, returns)


def _add_owned(
    layout: HostLayout,
    value: Value,
    owner: Owner,
    metadata: Metadata,
    returns: dict[Value, list[tuple[Value, Metadata, Number]]],
) -> None:
    layout.handles[value] = len(layout.handles)
    root = Root(True, layout.handles[value])
    _add_base(layout, value, root)
    if value in returns:
        layout.returned[value] = ReturnedBase(owner, metadata, root)


def _returned_bases(layout: HostLayout) -> dict[Value, list[tuple[Value, Metadata, Number]]]:
    """Base that the program makes → the results stored in the base, each with its offset in bytes."""
    found: dict[Value, list[tuple[Value, Metadata, Number]]] = {}
    for value, metadata in layout.results():
        base, offset = host.base_of(value)
        if not isinstance(base.owner, ir.Block):
            found.setdefault(base, []).append((value, metadata, offset))
    return found


def _allocated_as(base: Value, results: Sequence[tuple[Value, Metadata, Number]]) -> Metadata:
    """The metadata of the first result that fills a base, so that the base is its tensor; else those of its type."""
    own = Metadata.of(base)
    for value, metadata, offset in results:
        filled = 1 + sum((n - 1) * s for n, s in zip(metadata.sizes, metadata.strides, strict=True))
        dense = math.prod(metadata.sizes) == filled
        same_width = ir.MemRefType(value.type).element_type == ir.MemRefType(base.type).element_type
        if offset == 0 and same_width and (dense and filled == math.prod(own.sizes)):
            return metadata
    return own


def _as_wanted(metadata: Metadata, attributes: ir.DictAttr) -> Metadata:
    """Metadata with the dtype that a result's attributes name, and their strides if these address the same elements."""
    dtype = DTYPE.find_in(attributes) or metadata.dtype
    strides, wanted = metadata.strides, STRIDES.find_in(attributes)
    if wanted is not None:
        places = zip(metadata.sizes, strides, wanted, strict=True)
        if 0 in metadata.sizes or all(size == 1 or a == b for size, a, b in places):
            strides = tuple(wanted)
    return Metadata(metadata.sizes, strides, dtype)
