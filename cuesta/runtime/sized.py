"""Evaluates the metadata of a program with symbolic sizes for the sizes of one call.

The metadata of a program with symbolic sizes spell sizes, strides, offsets and words of its tables as text, `"64*s0"`.
The symbols' values turn them into numbers. Some numbers are computed anew for each set of values:

    a0, a1, …     offsets of the buffers in the arena, because the sizes decide which buffers fit where
    k0, k1, …     the version of its kernel that each launch on a GPU runs
    g0, g1, …     the grid of each launch; its text is in terms of the parameters p0, p1, … that the launch passes

`late` then has the numbers of the kernels that the sizes need and whose code was left for later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from cuesta.runtime.aten_calls import takes_sizes, with_numbers
from cuesta.runtime.offsets import Buffer, place
from cuesta.runtime.schema.checks import MOST, Wrong, refusing
from cuesta.runtime.schema.memory import check_places
from cuesta.runtime.schema.program import PlacedBuffer, Program
from cuesta.sizes import at, parse


def is_sized(program: Program) -> bool:
    """Whether a program has symbols in its sizes. A symbol may occur only in a view (`x[:n]`, n from the data), or only
    as an argument of a call through Python (`op(x, n)`)."""
    tensors = (tensor for key in ("arguments", "bases", "results") for tensor in program[key])
    numbers = (n for t in tensors for n in (*t.get("sizes", ()), *t.get("strides", ()), t.get("offset", 0)))
    if bool(program["words"]) or any(isinstance(n, str) for n in numbers):
        return True
    return any(takes_sizes(call["args"]) for call in program["calls"])


def admits(program: Program, values: Mapping[str, int]) -> bool:
    """Whether the program may be called with these values of its symbols. `assumed` maps expressions to whether each
    was negative at compile time. The program may not be called if one of them now has another sign or divides by 0."""
    try:
        return all((at(parse(size), values) < 0) == negative for size, negative in program["assumed"].items())
    except ZeroDivisionError:
        return False


def with_sizes(program: Program, values: Mapping[str, int]) -> Program:
    """The metadata of the program for these values of its symbols. Raises KeyError for a symbol without a value.

    Checks what the schema cannot check without numbers: raises ArtefactError if a result would lie outside of its
    memory, a buffer has a negative size, or a size cannot be computed.
    """
    with refusing(f"program for {', '.join(f'{name} = {value}' for name, value in values.items())}"):
        try:
            made = _with_sizes(program, values)
        except ZeroDivisionError:
            raise Wrong(None, "one of its sizes divides by 0") from None
        check_places(made)
    return made


def _with_sizes(program: Program, values: Mapping[str, int]) -> Program:
    placed = {**values, **_places(program["buffers"], values)}
    grids = _grids(program, placed)
    numbers = {**placed, **grids}

    @functools.cache  # there are thousands of words, but few different ones
    def number(spelled: int | str) -> int:
        return at(parse(spelled), numbers) if isinstance(spelled, str) else spelled

    made = {
        **program,
        "arena": number(program["arena"]),
        "words": [number(n) for n in program["words"]],
        "late": sorted({n for name, n in grids.items() if name[0] == "k" and program["kernels"][n]["late"]}),
        **{key: [_sized(e, number) for e in program[key]] for key in ("arguments", "bases", "results", "steps")},
        "calls": [{**_sized(call, number), "args": with_numbers(call["args"], number)} for call in program["calls"]],
    }
    return cast(Program, made)


def _sized(entry: Mapping[str, Any], number: Callable[[int | str], int]) -> dict[str, Any]:
    """An entry of the metadata with numbers for its sizes, strides and offset, and for those of its results."""
    lists: dict[str, Any] = {key: [number(n) for n in entry[key]] for key in ("sizes", "strides") if key in entry}
    offset = {"offset": number(entry["offset"])} if "offset" in entry else {}
    results = {"results": [_sized(r, number) for r in entry["results"]]} if "results" in entry else {}
    return {**entry, **lists, **offset, **results}


def _places(buffers: list[PlacedBuffer], values: Mapping[str, int]) -> dict[str, int]:
    """The offset of each buffer in the arena, and the arena's size in bytes."""
    if not buffers:
        return {}
    placed = [
        Buffer(at(parse(size), values) if isinstance(size, str) else size, first, last) for size, first, last in buffers
    ]
    for i, buffer in enumerate(placed):
        if not 0 <= buffer.nbytes <= MOST:
            raise Wrong(buffer.nbytes, "bytes of a buffer are 0 or more").within(f".buffers[{i}]")
    offsets, total = place(placed)
    return {"arena": total, **{f"a{i}": offset for i, offset in enumerate(offsets)}}


def _grids(program: Program, values: Mapping[str, int]) -> dict[str, int]:
    """For each launch with symbolic sizes: the version of its kernel that it runs, and the first side of its grid."""

    def number(spelled: int | str, known: Mapping[str, int]) -> int:
        return at(parse(spelled), known) if isinstance(spelled, str) else spelled

    found: dict[str, int] = {}
    for i, (versions, passed) in enumerate(program["grids"]):
        kernel = next((kernel for kernel, unless in versions if number(unless, values) == 0), None)
        if kernel is None:
            raise Wrong(len(versions), "no version of the kernel admits these sizes").within(f".grids[{i}]")
        parameters = {f"p{j}": number(size, values) for j, size in enumerate(passed)}
        found |= {f"k{i}": kernel, f"g{i}": number(program["kernels"][kernel]["grid"][0], parameters)}
    return found
