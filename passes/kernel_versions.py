"""Two versions of a kernel whose sizes depend on the call: one for sizes like those of the traced call, one for all.

    func @softmax {cuesta.sizes = ["p0", "p1"]}              func @softmax {…}
    host.launch(%x, %y) {@softmax,                     →     func @softmax__any {…}
      parameters = ["s0", "s1"]}                             host.launch(%x, %y) {@softmax,
                                                               otherwise = @softmax__any,
                                                               unless = ["(s1 % 16)", what s1 is more than 2048],
                                                               parameters = ["s0", "s1"]}

The first takes for granted that rows begin and end at multiples of 16, or of 8, 4 or 2 elements where they do in the
traced call, as wide loads ask for, and that a class which one block has room for there always fits. A launch runs it
where all of `unless` is 0, else the other, whose code is made when sizes need it (frontend/late_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.dialect import int_array, numbers
from cuesta.dialects.kernel_module import OTHERWISE, UNLESS, argument_shapes, parameters
from cuesta.passes.launches import Launch, common_divisor
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


def add_general(function: func.FuncOp) -> func.FuncOp:
    """A copy of the kernel beside it, under the name that launches know it by."""
    with ir.InsertionPoint(function):
        general = function.operation.clone().opview
    general.attributes["sym_name"] = ir.StringAttr.get(f"{function.name.value}__any")
    assert isinstance(general, func.FuncOp)
    return general


def choose_at_launch(launch: Launch, general: str, unless: Iterable[Number]) -> None:
    """Has a launch run the kernel `general` instead where any of `unless`, which are not negative, is not 0."""
    needed = sorted({n for n in unless if n != 0}, key=str)
    if not needed:
        return
    op = launch.op
    assert op is not None
    module, *_ = op.attributes["kernel"].value
    op.attributes[OTHERWISE] = ir.SymbolRefAttr.get([module, general])
    op.attributes[UNLESS] = int_array(needed)


def excess(size: Number, block: int) -> Number:
    """0 where the block has room for the size, and the size has elements; else more.

    A block of one has no mask, and none has where it divides the size: nothing would hide it where there are none.
    """
    turns = (size - 1) // block
    return turns * turns
