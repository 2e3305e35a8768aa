"""Versions of a kernel whose sizes depend on the call: one for sizes like those of the traced call, one for all.

    func @softmax {cuesta.sizes = ["p0", "p1"]}              func @softmax {…}, @softmax__1 {…}, @softmax__any {…}
    host.launch(%x, %y) {@softmax,                     →     host.launch(%x, %y) {@softmax,
      parameters = ["s0", "s1"]}                               otherwise = [@softmax__1, @softmax__any],
                                                               unless = [["(s1 % 16)", …], ["(s1 % 16)", …]],
                                                               parameters = ["s0", "s1"]}

The first takes for granted that rows begin and end at multiples of 16, or of 8, 4 or 2 elements where they do in the
traced call, as wide loads ask for; that a class which one block has room for there fits, and fills more than half of
it; and where a program finds its place by dividing, that it divides by the numbers of that call. Others are for rows
of half, a quarter, twice as many elements and so on, or do with fewer of these. A launch runs the first of which all
of `unless` is 0, or the last. The code of those that the traced call does not run is made when sizes need it
(cuesta/driver/late/late_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.dialect import int_array, numbers
from cuesta.dialects.kernel_module import OTHERWISE, UNLESS, argument_shapes, parameters
from cuesta.passes.analysis.launches import Launch, common_divisor
from cuesta.sizes import Number, hint, symbols

#: The largest multiple that wide loads ask for: of sizes and strides in elements, of offsets in bytes.
WIDE = 16


def widening(function: func.FuncOp, launches: Sequence[Launch], fastest: Iterable[int]) -> dict[str, int]:
    """What parameters are multiples of in every launch of the traced call, at most `WIDE`, where no more than a part of
    that is known for other calls, and wide loads ask for it: strides, and sizes of the classes that are walked along
    memory."""
    sizes = numbers(function.attributes["cuesta.sizes"])
    wanted = [stride for _, strides in argument_shapes(function).values() for stride in strides]
    wanted += [sizes[c] for c in fastest]
    named: set[str] = set().union(*(symbols(n) for n in wanted))
    chosen = [name for name in parameters(function) if name in named]
    found = {name: _widened([launch.parameters[name] for launch in launches]) for name in chosen}
    return {name: multiple for name, multiple in found.items() if multiple is not None}


def wide_offsets(launches: Sequence[Launch]) -> dict[int, int]:
    """Likewise what arguments' offsets, in bytes, are multiples of."""
    count = len(launches[0].offsets) if launches else 0
    found = {i: _widened([launch.offsets[i] for launch in launches]) for i in range(count)}
    return {i: multiple for i, multiple in found.items() if multiple is not None}


def _widened(values: Sequence[Number]) -> int | None:
    """What all are multiples of in the traced call, where it is more than what is known."""
    traced = math.gcd(WIDE, *map(hint, values))
    return traced if common_divisor(values, WIDE) % traced else None


def add_version(function: func.FuncOp, name: str) -> func.FuncOp:
    """A copy of a kernel beside it, under that name."""
    with ir.InsertionPoint(function):
        added = function.operation.clone().opview
    added.attributes["sym_name"] = ir.StringAttr.get(name)
    assert isinstance(added, func.FuncOp)
    return added


def choose_at_launch(launch: Launch, versions: Sequence[tuple[str, Iterable[Number]]]) -> None:
    """Has a launch run the first of a kernel's versions, by name, of which all numbers beside it, which are not
    negative, are 0."""
    names: list[str] = []
    unless: list[list[Number]] = []
    for name, given in versions:
        needed = sorted({n for n in given if n != 0}, key=str)
        if any(isinstance(n, int) for n in needed):
            continue  # it never is right here
        names.append(name)
        unless.append(needed)
        if not needed:
            break
    op = launch.op
    assert op is not None
    module, *_ = op.attributes["kernel"].value
    symbols = [ir.SymbolRefAttr.get([module, name]) for name in names]
    op.attributes["kernel"] = symbols[0]
    if len(names) > 1:
        op.attributes[OTHERWISE] = ir.ArrayAttr.get(symbols[1:])
        op.attributes[UNLESS] = ir.ArrayAttr.get([int_array(row) for row in unless[:-1]])


def excess(size: Number, block: int, masked: bool = False) -> Number:
    """0 where the block has room for the size, else more; where it has no mask, which would hide what is not there, not
    for a size of 0 either."""
    if masked:
        return size // (block + 1)
    turns = (size - 1) // block
    return turns * turns


def needs_more_than_half(size: Number, block: int) -> Number:
    """0 where the block has room for the size, and half of it has not; else more."""
    if block < 2:
        return excess(size, block)
    off = (size - 1) // (block // 2) - 1
    return off * off
