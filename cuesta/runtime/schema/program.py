"""Checks the "program" of an artefact's metadata, by which runtime/executable.py calls the machine code.

The docstring of executable.py says what each key means. This module says which values are valid, by themselves and
together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

import torch

from cuesta.errors import OptionError
from cuesta.runtime.schema.calls import Call, check_call, device
from cuesta.runtime.schema.checks import MOST, Wrong, check_of, row, tagged, text, whole
from cuesta.runtime.schema.memory import MEMORY_OF, check_result, extent
from cuesta.runtime.schema.numbers import Offset, SizeNumber, Stride, Word, check_text, known_symbols, names_in, number
from cuesta.runtime.schema.report import Origin
from cuesta.runtime.schema.tensors import Tensor, check_dims
from cuesta.targets import parse_target

#: The most tensor handles kept in a program's slots, each of 16 bytes: far more than any program has.
_MOST_KEPT = 1 << 20

_side = number("a side of a grid is 0 or more")


def _check_side(value: Any) -> None:
    """Checks a side of a kernel's grid: its text names the parameters that a launch passes, not the call's symbols."""
    with known_symbols(None):
        _side(value)


def _check_target(value: Any) -> None:
    text(value)
    try:
        parse_target(value)
    except OptionError as problem:
        raise Wrong(value, str(problem)) from None


def _check_size_text(value: Any) -> None:
    check_text(value, "a size is a text here", -MOST - 1)


Owner: TypeAlias = Literal["caller", "torch", "aten"]
_Index: TypeAlias = Annotated[int, whole("an index is 0 or more")]
_Count: TypeAlias = Annotated[int, whole("a count is 0 or more")]
_Kept: TypeAlias = Annotated[int, whole(f"0 to {_MOST_KEPT} are valid", most=_MOST_KEPT)]
_Device: TypeAlias = Annotated[str, device]
_Target: TypeAlias = Annotated[str, _check_target]
_SizeText: TypeAlias = Annotated[str, _check_size_text]
_Sides: TypeAlias = Annotated["list[int | str]", row((_check_side,) * 3)]


class Argument(Tensor):
    """A tensor that the program takes. `device` is given if it is not the program's device."""

    device: NotRequired[_Device]


class Base(Tensor):
    """Memory of results. `owner` says who allocates it."""

    owner: Owner


class Result(Tensor):
    """A result: it begins `offset` elements after the first element of argument or base `index`."""

    kind: Literal["argument", "base"]
    index: _Index
    offset: Offset
    whole: bool


class CheckStep(TypedDict):
    """A step that raises with its own message."""

    kind: Literal["check"]
    message: str
    raises: Literal["IndexError", "RuntimeError"]


class AllocationStep(Tensor, Origin):
    """A step that allocates a base."""

    kind: Literal["allocation"]


class LaunchStep(Origin):
    """A step that launches a kernel, on a GPU or in a checked program. `buffers` are the names of the launch's buffers
    for messages of a checked program."""

    kind: Literal["launch"]
    kernel: str
    buffers: NotRequired[list[str]]


class CallStep(Origin):
    """A step that calls into ATen, by any route."""

    kind: Literal["call"]
    overload: str
    results: list[Tensor]


class Kernel(TypedDict):
    """A kernel of a GPU. Its code is a section of the artefact; these fields are what a launch needs."""

    name: str
    late: bool
    made: bool
    grid: _Sides
    halvings: _Count
    warps: _Count
    shared: _Count
    symbol: str
    registers: int | None
    spills: int | None


class Memory(TypedDict):
    """Sizes and strides, in elements of `itemsize` bytes."""

    sizes: list[SizeNumber]
    strides: list[Stride]
    itemsize: _Count


class Operand(Memory):
    """An operand of which only a call's sizes tell whether it lies within its memory. Its offset is in bytes."""

    what: str
    offset: Offset
    memory: Memory


Access: TypeAlias = tuple[
    Annotated[int, whole("a buffer's number, or -1 for memory of the kernel's own, is valid", least=-1)],
    Literal["read", "write"],
    str,
]


class Checked(TypedDict):
    """The additional data of a program of the checked mode (runtime/checked.py)."""

    operands: list[Operand]
    accesses: list[Access]


_Version: TypeAlias = tuple[_Index, Word]
_Grid: TypeAlias = tuple[list[_Version], list[Word]]
PlacedBuffer: TypeAlias = tuple[SizeNumber, _Index, _Index]
Step: TypeAlias = Annotated[
    CheckStep | AllocationStep | LaunchStep | CallStep,
    tagged(
        "kind",
        {
            "check": check_of(CheckStep),
            "allocation": check_of(AllocationStep),
            "launch": check_of(LaunchStep),
            "call": check_of(CallStep),
        },
    ),
]
_Call: TypeAlias = Annotated[Call, check_call]


class Program(TypedDict):
    """The "program": everything that is needed to call the machine code."""

    arguments: list[Argument]
    arena: SizeNumber
    buffers: list[PlacedBuffer]
    words: list[Word]
    grids: list[_Grid]
    keeps_arena: bool
    memory: dict[str, int]
    bases: list[Base]
    kept: _Kept
    released: list[_Index]
    results: list[Result]
    calls: list[_Call]
    steps: list[Step]
    target: _Target
    device: _Device
    elsewhere: list[_Device]
    mutates: list[_Index]
    lent: list[_Index]
    unread: list[_Index]
    kernels: list[Kernel]
    late: list[_Index]
    assumed: dict[_SizeText, bool]
    checked: NotRequired[Checked]


_check_keys = check_of(Program)


def check_program(program: Any, symbols: frozenset[str] | None, code: Collection[str]) -> None:
    """Raises Wrong unless `program` is valid and can be called.

    `symbols` are the symbols that its sizes may name, None if they are unknown. `code` are the names of the kernels
    whose code the artefact has.
    """
    with known_symbols(None if symbols is None else symbols | _made_up(program)):
        _check_keys(program)
    for check in (_check_tensors, _check_indices, _check_grids, _check_device):
        check(program)
    _check_code(program, code)
    if symbols is not None:
        _check_names(program, symbols)


def _made_up(program: Any) -> set[str]:
    """The names whose values runtime/sized.py computes: offsets in the arena, and versions and grids of launches."""
    names = {"arena"}
    for key, letters in _MADE.items():
        rows = program.get(key) if type(program) is dict else None
        count = len(rows) if type(rows) is list else 0
        names |= {f"{letter}{i}" for letter in letters for i in range(count)}
    return names


#: Key → the first letters of the names made up for each of its rows.
_MADE = {"buffers": "a", "grids": "kg"}


@contextmanager
def _within(step: str) -> Iterator[None]:
    try:
        yield
    except Wrong as wrong:
        raise wrong.within(step) from None


def _check_tensors(program: Mapping[str, Any]) -> None:
    """Checks that each tensor has as many strides as sizes. Checks that each result lies inside its memory, if the
    sizes of both are numbers."""
    extents: dict[tuple[str, int], int | None] = {}
    for key in ("arguments", "bases", "results", "steps"):
        for i, tensor in enumerate(program[key]):
            try:
                if "results" in tensor:
                    _check_dims_of_all(tensor["results"])
                if "sizes" in tensor:
                    check_dims(tensor)
                    extents[key, i] = extent(tensor) if _is_plain(tensor) else None
            except Wrong as wrong:
                raise wrong.within(f".{key}[{i}]") from None
    for i, result in enumerate(program["results"]):
        key, index = MEMORY_OF[result["kind"]], result["index"]
        with _within(f".results[{i}]"):
            if index >= len(program[key]):
                raise Wrong(index, f"the program has {len(program[key])} {key}").within(".index")
            nbytes = extents[key, index]
            if result["whole"] or (nbytes is not None and _is_plain(result)):
                check_result(result, program[key][index], nbytes or 0)
            if result["kind"] == "argument" and index in program["released"]:
                raise Wrong(index, "the program releases this argument's memory").within(".index")


def _check_dims_of_all(tensors: list[Mapping[str, Any]]) -> None:
    for i, tensor in enumerate(tensors):
        try:
            check_dims(tensor)
        except Wrong as wrong:
            raise wrong.within(f".results[{i}]") from None


def _is_plain(tensor: Mapping[str, Any]) -> bool:
    """Whether sizes, strides and offset of a tensor are all numbers."""
    numbers = (*tensor["sizes"], *tensor["strides"], tensor.get("offset", 0))
    return not any(type(n) is str for n in numbers)


def _check_indices(program: Program) -> None:
    """Checks that lists of argument numbers name existing arguments, each once."""
    for key in ("released", "mutates", "lent", "unread"):
        with _within(f".{key}"):
            _check_list(program[key], len(program["arguments"]), "arguments")
    for i in program["lent"]:
        if i in program["mutates"]:
            raise Wrong(i, "an argument is donated (lent) or mutated, not both").within(".lent")
    if program["late"]:
        raise Wrong(program["late"], "an empty list is valid: only sizes make kernels late").within(".late")


def _check_list(indices: list[int], count: int, what: str) -> None:
    for i, index in enumerate(indices):
        if index >= count:
            raise Wrong(index, f"the program has {count} {what}").within(f"[{i}]")
    if len(set(indices)) < len(indices):
        raise Wrong(indices, "each is valid once")


def _check_grids(program: Program) -> None:
    for i, (_, first, last) in enumerate(program["buffers"]):
        if first > last:
            raise Wrong(last, "a buffer's last step is not before its first").within(f".buffers[{i}]")
    kernels = program["kernels"]
    for i, (versions, passed) in enumerate(program["grids"]):
        with _within(f".grids[{i}]"):
            for kernel, _ in versions:
                if kernel >= len(kernels):
                    raise Wrong(kernel, f"the program has {len(kernels)} kernels")
                known = {f"p{j}" for j in range(len(passed))}
                side = kernels[kernel]["grid"][0]
                if not names_in(side) <= known:
                    raise Wrong(side, f"the grid of kernel {kernel}; it is passed {len(passed)} sizes")


def _check_device(program: Program) -> None:
    target, where = parse_target(program["target"]), torch.device(program["device"])
    if where.type != target.device_type:
        raise Wrong(str(where), f"a program for {target} runs on {target.device_type}").within(".device")
    if where.type != "cpu" and where.index is None:
        raise Wrong(str(where), "a device with an index is valid").within(".device")
    if program["kernels"] and not target.gpu:
        raise Wrong(program["kernels"], "a CPU's kernels are in the machine code").within(".kernels")


def _check_code(program: Program, code: Collection[str]) -> None:
    names = [kernel["name"] for kernel in program["kernels"]]
    if len(set(names)) < len(names):
        raise Wrong(names, "each name is valid once").within(".kernels")
    if set(names) != set(code):
        other = min(set(names) ^ set(code))
        raise Wrong(other, "the described kernels and those with code are not the same").within(".kernels")


def _check_names(program: Program, symbols: frozenset[str]) -> None:
    """Checks that expressions which are evaluated before arena offsets or grids are known do not name these."""
    offsets = symbols | {f"a{i}" for i in range(len(program["buffers"]))} | {"arena"}
    parts: list[tuple[str, list[Any], frozenset[str]]] = [
        ("buffers", [row[0] for row in program["buffers"]], symbols),
        ("assumed", list(program["assumed"]), symbols),
        ("grids", [n for vs, passed in program["grids"] for n in (*(unless for _, unless in vs), *passed)], offsets),
    ]
    for key, numbers, known in parts:
        for spelled in numbers:
            if not names_in(spelled) <= known:
                raise Wrong(spelled, f"known are {', '.join(sorted(known)) or 'no symbols'}").within(f".{key}")
