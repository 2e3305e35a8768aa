"""Reads and replaces ATen calls for a convolution's gradients, for passes that compute some of these otherwise.

%dx, %dw = aten.convolution_backward(%gradient, %x, %w, …, [true, true, false])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects.aten import Call, OperandRef, decode_call, encode_call
from cuesta.dialects.types import shape_of
from cuesta.options import EAGERS_BITS
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions, replace

_OVERLOAD = "aten.convolution_backward.default"


def are_gradients(op: ir.Operation) -> bool:
    """Whether an op is an ATen call for a convolution's gradients, but not one that is made for eager's bits."""
    return Call.matches(op) and Call.overload.of(op) == _OVERLOAD and Call.reason.of(op) != EAGERS_BITS


def gradient_arguments(op: ir.Operation) -> list[Any]:
    """The call's arguments. Stride, padding and dilation, which may be one number for all dims, have one per dim."""
    arguments, _ = decode_call(Call.args.of(op), list(op.operands))
    dims = len(shape_of(arguments[2])) - 2
    arguments[4:7] = [given * dims if len(given) == 1 else given for given in arguments[4:7]]
    return arguments


def given_gradients(op: ir.Operation) -> list[int]:
    """Which gradient each result is: 0 the images', 1 the weight's, 2 the bias's."""
    positions = Call.positions.find(op)
    return list(range(len(op.results))) if positions is None else positions


def completed(op: ir.Operation, made: Mapping[int, ir.Value]) -> list[ir.Value]:
    """The results of a call for gradients: those in `made`, by position as in `given_gradients`, and the others from a
    call for these alone, at the insertion point."""
    stands = given_gradients(op)
    left = [position for position in stands if position not in made]
    found = {**made, **(call_for(op, left) if left else {})}
    return [found[position] for position in stands]


def call_for(op: ir.Operation, positions: Sequence[int]) -> dict[int, ir.Value]:
    """The gradients at `positions`, as by `given_gradients`, from a call for them alone at the insertion point."""
    refs = [OperandRef(i) for i in range(len(op.operands))]
    arguments, keywords = decode_call(Call.args.of(op), refs)
    arguments[-1] = [position in positions for position in range(3)]
    stands = given_gradients(op)
    results = [op.results[stands.index(position)] for position in positions]
    strides = Call.result_strides.of(op)
    call = Call.build(
        list(op.operands),
        [result.type for result in results],
        dict(op.attributes.items()),
        args=encode_call(arguments, keywords),
        positions=list(positions),
        result_strides=[strides[stands.index(position)] for position in positions],
    )
    return dict(zip(positions, call.results, strict=True))


def replace_chosen(
    module: ir.Module,
    is_chosen: Callable[[ir.Operation, MemoryOrder], bool],
    rule: Callable[[ir.Operation], Sequence[ir.Value] | None],
) -> None:
    """Replaces the chosen ops of a module, but those for which the rule gives None. All are chosen before one is
    replaced: unlike a call, the new ops do not state their results' strides."""
    with module.context:
        for function in functions(module):
            ops = [op.operation for op in function.regions[0].blocks[0].operations]
            memory = MemoryOrder()
            for op in [op for op in ops if is_chosen(op, memory)]:
                with ir.InsertionPoint(op), op.location:
                    made = rule(op)
                if made is not None:
                    replace(op, made)
