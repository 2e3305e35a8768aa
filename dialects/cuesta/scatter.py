"""Defines the op that writes at computed positions."""

from collections.abc import Sequence
from typing import Annotated

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import OPTIONAL, Ints, Marker, Text

#: How a written value combines with the old one → torch's name for it; None if the written value replaces the old one.
COMBINE = {"set": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


class Scatter(Operation, name="scatter", traits=[ext.Pure]):
    """x with every element of `value` written to a position in x by `combine`; positions may repeat.

    `walks` gives an element's position along each dim of x: d stands for its index along dim d of `value`, -1 - k for
    its entry in `indices[k]`. Indices have the shape of `value`, which has the element type of x. If several elements
    have one position, `set` keeps one of them (on a CPU the last in row-major order); the others combine all of them.

    A negative index counts from the end if the op has the attribute `wraps`. Any other index outside x raises
    IndexError when the graph runs. `in_range` promises that there is no such index, and nothing checks for it.
    """

    x: Operand
    value: Operand
    indices: Sequence[Operand]
    walks: Ints
    combine: Text
    wraps: Annotated[Marker, OPTIONAL]
    in_range: Annotated[Marker, OPTIONAL]
    result: Result


@reference(Scatter)
def _scatter(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    x, value, *indices = xs
    place = torch.zeros(value.shape, dtype=torch.int64)
    for d, walk in enumerate(Scatter.walks.of(op)):
        if walk < 0:
            along = indices[-1 - walk].long()
            along = torch.where(along < 0, along + x.shape[d], along)
        else:
            along = torch.arange(value.shape[walk]).reshape([-1 if i == walk else 1 for i in range(value.dim())])
        place = place * x.shape[d] + along
    name = COMBINE[Scatter.combine.of(op)]
    flat, place, value = x.reshape(-1), place.reshape(-1), value.reshape(-1)
    if name is None:
        return flat.scatter(0, place, value).reshape(x.shape)
    if x.dtype != torch.bool:
        return flat.scatter_reduce(0, place, value, name).reshape(x.shape)
    # Bools are combined as integers: a sum of more than one is true.
    counts = flat.to(torch.int64).scatter_reduce(0, place, value.to(torch.int64), name)
    return counts.bool().reshape(x.shape)


@verifier(Scatter)
def _verify(op: ir.Operation) -> str | None:
    x, value, *indices = op.operands
    walks, sizes, given = Scatter.walks.of(op), types.shape_of(x), types.shape_of(value)
    if Scatter.combine.of(op) not in COMBINE:
        return f"combine is one of {', '.join(COMBINE)}, not {Scatter.combine.of(op)}"
    if len(walks) != len(sizes):
        return f"walks has {len(walks)} entries for {len(sizes)} dims"
    if sorted(w for w in walks if w < 0) != list(range(-len(indices), 0)) or not indices:
        return f"walks {walks} must name each of {len(indices)} indices once"
    kept = [w for w in walks if w >= 0]
    if len(set(kept)) != len(kept) or any(w >= len(given) for w in kept):
        return f"walks {walks} must name dims of {list(given)}, each once at most"
    wrong = next((d for d, w in enumerate(walks) if w >= 0 and sizes[d] != given[w]), None)
    if wrong is not None:
        return f"dim {wrong} has size {sizes[wrong]}, and the value's dim along it {given[walks[wrong]]}"
    if any(types.shape_of(i) != given for i in indices):
        return f"the indices must have the shape {list(given)} of what is written"
    if any(types.spelling_of(i) not in ("i32", "i64") for i in indices):
        return "the indices must be i32 or i64"
    if types.spelling_of(value) != types.spelling_of(x):
        return f"writes {types.spelling_of(value)} into {types.spelling_of(x)}"
    return None if x.type == op.results[0].type else "the result must have the operand's type"
