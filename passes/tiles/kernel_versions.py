"""Makes versions of a kernel whose sizes depend on the call: one for sizes like those of the traced call, one for all.

    func @softmax {cuesta.sizes = ["p0", "p1"]}              func @softmax {…}, @softmax__1 {…}, @softmax__any {…}
    host.launch(%x, %y) {@softmax,                     →     host.launch(%x, %y) {@softmax,
      parameters = ["s0", "s1"]}                               otherwise = [@softmax__1, @softmax__any],
                                                               unless = [["(s1 % 16)", …], ["(s1 % 16)", …]],
                                                               parameters = ["s0", "s1"]}

The first version assumes what holds in the traced call. Rows begin and end at multiples of 16 elements (or 8, 4 or 2),
as wide loads require. A class that fits one block fits it, and fills more than half of it. A program that finds its
position by dividing divides by the numbers of that call. Other versions are for rows of half, a quarter, twice as many
elements and so on, or make fewer of these assumptions. A launch runs the first version whose numbers in `unless` are
all 0, or the last version. The code of versions that the traced call does not run is made when sizes need it
(cuesta/driver/late/late_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.kernel_fields import SIZES
from cuesta.dialects.kernel_module import argument_shapes, parameters
from cuesta.passes.analysis.launches import Launch, common_divisor
from cuesta.sizes import Number, hint, symbols

#: The largest multiple that wide loads require: in elements for sizes and strides, in bytes for offsets.
WIDE = 16


def widening(function: func.FuncOp, launches: Sequence[Launch], fastest: Iterable[int]) -> dict[str, int]:
    """Parameter → its multiple, at most `WIDE`, in every launch of the traced call. Includes only parameters on which
    wide loads depend (strides, and sizes of the classes `fastest`, which are contiguous in memory), and only if a
    smaller multiple is known for other calls."""
    sizes = SIZES.of(function)
    wanted = [stride for _, strides in argument_shapes(function).values() for stride in strides]
    wanted += [sizes[c] for c in fastest]
    named: set[str] = set().union(*(symbols(n) for n in wanted))
    chosen = [name for name in parameters(function) if name in named]
    found = {name: _widened([launch.parameters[name] for launch in launches]) for name in chosen}
    return {name: multiple for name, multiple in found.items() if multiple is not None}


def wide_offsets(launches: Sequence[Launch]) -> dict[int, int]:
    """Argument → the multiple of its offset in bytes, found as in `widening`."""
    count = len(launches[0].offsets) if launches else 0
    found = {i: _widened([launch.offsets[i] for launch in launches]) for i in range(count)}
    return {i: multiple for i, multiple in found.items() if multiple is not None}


def _widened(values: Sequence[Number]) -> int | None:
    """The common divisor of all values in the traced call, if it is larger than the one known for every call."""
    traced = math.gcd(WIDE, *map(hint, values))
    return traced if common_divisor(values, WIDE) % traced else None


def add_version(function: func.FuncOp, name: str) -> func.FuncOp:
    """Adds a copy of a kernel, called `name`, before it."""
    with ir.InsertionPoint(function):
        added = function.operation.clone().opview
    assert isinstance(added, func.FuncOp)
    added.sym_name = ir.StringAttr.get(name)
    return added


def choose_at_launch(launch: Launch, versions: Sequence[tuple[str, Iterable[Number]]]) -> None:
    """Makes a launch run the first of `versions` whose numbers are all 0. Each version is given as (name, numbers); no
    number is negative."""
    names: list[str] = []
    unless: list[list[Number]] = []
    for name, given in versions:
        needed = sorted({n for n in given if n != 0}, key=str)
        if any(isinstance(n, int) for n in needed):
            continue  # a constant other than 0: this launch can never run the version
        names.append(name)
        unless.append(needed)
        if not needed:
            break
    op = launch.op
    assert op is not None
    host.Launch.kernel.put(op, names[0])
    if len(names) > 1:
        host.Launch.otherwise.put(op, names[1:])
        host.Launch.unless.put(op, unless[:-1])


def excess(size: Number, block: int, masked: bool = False) -> Number:
    """0 if the size fits the block, else more. If the block has no mask, a size of 0 also gives more than 0, because
    nothing would hide the missing elements."""
    if masked:
        return size // (block + 1)
    turns = (size - 1) // block
    return turns * turns


def needs_more_than_half(size: Number, block: int) -> Number:
    """0 if the size fits the block but not half of it; else more."""
    if block < 2:
        return excess(size, block)
    off = (size - 1) // (block // 2) - 1
    return off * off
