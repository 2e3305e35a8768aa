"""The "program" of an artefact's metadata: what runtime/executable.py calls the machine code with.

Its docstring says what each key means. Here is what each may hold, and what has to hold between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

import torch

from cuesta.errors import OptionError
from cuesta.runtime.schema.calls import check_call, device
from cuesta.runtime.schema.checks import MOST, Wrong, check_of, tagged, text, whole
from cuesta.runtime.schema.memory import MEMORY_OF, check_result, extent
from cuesta.runtime.schema.numbers import Offset, SizeNumber, Stride, Word, check_text, known_symbols, names_in, number
from cuesta.runtime.schema.report import Origin
from cuesta.runtime.schema.tensors import Tensor, check_dims
from cuesta.targets import parse_target

#: Tensors that stay with the slots of a program, each of which takes 16 bytes: far more than any program has.
_MOST_KEPT = 1 << 20

_side = number("a side of a grid is 0 or more")


def _check_side(value: Any) -> None:
    """A side of a kernel's grid is in terms of what a launch passes it, not of the call's symbols."""
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


_Index: TypeAlias = Annotated[int, whole("an index is 0 or more")]
_Count: TypeAlias = Annotated[int, whole("a count is 0 or more")]
_Kept: TypeAlias = Annotated[int, whole(f"0 to {_MOST_KEPT} are valid", most=_MOST_KEPT)]
_Device: TypeAlias = Annotated[str, device]
_Target: TypeAlias = Annotated[str, _check_target]
_SizeText: TypeAlias = Annotated[str, _check_size_text]
_Side: TypeAlias = Annotated["int | str", _check_side]


class Argument(Tensor):
    """A tensor that the program is given; `device` where that is not the program's."""

    device: NotRequired[_Device]


class Base(Tensor):
    """Memory that results lie in, and who allocates it."""

    owner: Literal["caller", "torch", "aten"]


class Result(Tensor):
    """Where a result lies: `offset` elements behind the first one of argument or base `index`."""

    kind: Literal["argument", "base"]
    index: _Index
    offset: Offset
    whole: bool


class CheckStep(TypedDict):
    """A step that raises with its own message."""

    kind: str
    message: str
    raises: Literal["IndexError", "RuntimeError"]


class AllocationStep(Tensor, Origin):
    """A step that allocates a base."""

    kind: str


class LaunchStep(Origin):
    """A step that launches a kernel: on a GPU, or in a checked program, whose messages name its buffers."""

    kind: str
    kernel: str
    buffers: NotRequired[list[str]]


class CallStep(Origin):
    """A step that calls into ATen, by any route."""

    kind: str
    overload: str
    results: list[Tensor]


class Kernel(TypedDict):
    """A kernel of a GPU's. Its code is a section of the artefact; these are what a launch of it takes."""

    name: str
    late: bool
    made: bool
    grid: tuple[_Side, _Side, _Side]
    halvings: _Count
    warps: _Count
    shared: _Count
    symbol: str
    registers: int | None
    spills: int | None


class Memory(TypedDict):
    """Sizes and strides in elements of so many bytes."""

    sizes: list[SizeNumber]
    strides: list[Stride]
    itemsize: _Count


class Operand(Memory):
    """An operand that only a call's sizes tell to lie within its memory; its offset is in bytes."""

    what: str
    offset: Offset
    memory: Memory


_Access: TypeAlias = tuple[
    Annotated[int, whole("a buffer's number, or -1 for memory of the kernel's own, is valid", least=-1)],
    Literal["read", "write"],
    str,
]


class Checked(TypedDict):
    """What a program of the checked mode (runtime/checked.py) has beside the others."""

    operands: list[Operand]
    accesses: list[_Access]


_Version: TypeAlias = tuple[_Index, Word]
_Grid: TypeAlias = tuple[list[_Version], list[Word]]
_Buffer: TypeAlias = tuple[SizeNumber, _Index, _Index]
_Step: TypeAlias = Annotated[
    Any,
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
_Call: TypeAlias = Annotated[Any, check_call]


class Program(TypedDict):
    """All that the machine code is called with."""

    arguments: list[Argument]
    arena: SizeNumber
    buffers: list[_Buffer]
    words: list[Word]
    grids: list[_Grid]
    keeps_arena: bool
    memory: dict[str, int]
    bases: list[Base]
    kept: _Kept
    released: list[_Index]
    results: list[Result]
    calls: list[_Call]
    steps: list[_Step]
    target: _Target
    device: _Device
    elsewhere: list[_Device]
    mutates: list[_Index]
    lent: list[_Index]
    kernels: list[Kernel]
    late: list[_Index]
    assumed: dict[_SizeText, bool]
    checked: NotRequired[Checked]


_check_keys = check_of(Program)


def check_program(program: Any, symbols: frozenset[str] | None, code: Collection[str]) -> None:
    """Raises Wrong unless `program` is one that can be called.

    `symbols` are those that its sizes may name, None where nobody knows; `code` are the names of the kernels whose code
    the artefact has.
    """
    with known_symbols(None if symbols is None else symbols | _made_up(program)):
        _check_keys(program)
    for check in (_check_tensors, _check_indices, _check_grids, _check_device):
        check(program)
    _check_code(program, code)
    if symbols is not None:
        _check_names(program, symbols)


def _made_up(program: Any) -> set[str]:
    """Names that runtime/sized.py gives numbers to: offsets in the arena, and versions and grids of launches."""
    names = {"arena"}
    for key, letters in _MADE.items():
        rows = program.get(key) if type(program) is dict else None
        count = len(rows) if type(rows) is list else 0
        names |= {f"{letter}{i}" for letter in letters for i in range(count)}
    return names


#: Key → the letters of the names that stand for each of its rows.
_MADE = {"buffers": "a", "grids": "kg"}


@contextmanager
def _within(step: str) -> Iterator[None]:
    try:
        yield
    except Wrong as wrong:
        raise wrong.within(step) from None


def _check_tensors(program: Mapping[str, Any]) -> None:
    """Each tensor has as many strides as sizes, and each result lies in its memory, as far as that has numbers."""
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
                raise Wrong(index, "the program gives this argument back").within(".index")


def _check_dims_of_all(tensors: list[Mapping[str, Any]]) -> None:
    for i, tensor in enumerate(tensors):
        try:
            check_dims(tensor)
        except Wrong as wrong:
            raise wrong.within(f".results[{i}]") from None


def _is_plain(tensor: Mapping[str, Any]) -> bool:
    """Whether all that is said of a tensor is a number."""
    numbers = (*tensor["sizes"], *tensor["strides"], tensor.get("offset", 0))
    return not any(type(n) is str for n in numbers)


def _check_indices(program: Mapping[str, Any]) -> None:
    """What counts arguments does so, each once."""
    for key in ("released", "mutates", "lent"):
        with _within(f".{key}"):
            _check_list(program[key], len(program["arguments"]), "arguments")
    for i in program["lent"]:
        if i in program["mutates"]:
            raise Wrong(i, "an argument is lent or mutated, not both").within(".lent")
    if program["late"]:
        raise Wrong(program["late"], "an empty list is valid: only sizes make kernels late").within(".late")


def _check_list(indices: list[int], count: int, what: str) -> None:
    for i, index in enumerate(indices):
        if index >= count:
            raise Wrong(index, f"the program has {count} {what}").within(f"[{i}]")
    if len(set(indices)) < len(indices):
        raise Wrong(indices, "each is valid once")


def _check_grids(program: Mapping[str, Any]) -> None:
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


def _check_device(program: Mapping[str, Any]) -> None:
    target, where = parse_target(program["target"]), torch.device(program["device"])
    if where.type != target.device_type:
        raise Wrong(str(where), f"a program for {target} runs on {target.device_type}").within(".device")
    if where.type != "cpu" and where.index is None:
        raise Wrong(str(where), "a device with its number is valid").within(".device")
    if program["kernels"] and not target.gpu:
        raise Wrong(program["kernels"], "a CPU's kernels are in the machine code").within(".kernels")


def _check_code(program: Mapping[str, Any], code: Collection[str]) -> None:
    names = [kernel["name"] for kernel in program["kernels"]]
    if len(set(names)) < len(names):
        raise Wrong(names, "each name is valid once").within(".kernels")
    if set(names) != set(code):
        other = min(set(names) ^ set(code))
        raise Wrong(other, "the artefact has code for other kernels than it describes").within(".kernels")


def _check_names(program: Mapping[str, Any], symbols: frozenset[str]) -> None:
    """What is worked out before offsets and grids are known names neither."""
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
