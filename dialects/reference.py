"""Runs a function of the cuesta dialect op by op, each op by its torch reference.

This runs the top level without a compiler; every level below is checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import aten, types
from cuesta.dialects.cuesta import REFERENCES
from cuesta.dialects.graph_function import MUTATES
from cuesta.errors import CuestaError, ExecutionError, Unsupported, VerifyError
from cuesta.sizes import at


def run_reference(module: ir.Module, inputs: Sequence[torch.Tensor], function: str = "graph") -> list[torch.Tensor]:
    """The values that `function` returns for `inputs`, new values of mutated arguments included.

    Raises CuestaError where the inputs do not fit the function, Unsupported for an op that has no
    reference, ExecutionError where an op fails on its operands (an index out of range), and
    VerifyError where an op's result is not of the type that the op claims.
    """
    entry = find_function(module, function).regions[0].blocks[0]
    _check_inputs(function, entry, inputs)
    values: dict[ir.Value, torch.Tensor] = dict(zip(entry.arguments, inputs, strict=True))
    for op_view in entry.operations:
        op = op_view.operation
        operands = [values[v] for v in op.operands]
        if isinstance(op_view, func.ReturnOp):
            return operands
        values.update(zip(op.results, _run(op, operands), strict=True))
    raise VerifyError(f"function {function!r} does not end in a return")


def run_in_place(module: ir.Module, inputs: Sequence[torch.Tensor], function: str = "graph") -> list[torch.Tensor]:
    """Acts like a compiled program: returns the graph's results and writes the arguments that the graph mutates."""
    mutates = MUTATES.find(find_function(module, function)) or []
    results = run_reference(module, inputs, function)
    # Copied first: a result may be an argument that is about to be written, or a view of one.
    results = [x.clone() for x in results] if mutates else results
    outputs = len(results) - len(mutates)
    for position, value in zip(mutates, results[outputs:], strict=True):
        inputs[position].copy_(value)
    return results[:outputs]


def find_function(module: ir.Module, name: str) -> func.FuncOp:
    """The function `name`. Raises CuestaError, which lists the module's functions, if there is none of this name."""
    found = {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp) and not op.is_external}
    if name not in found:
        raise CuestaError(f"the module has no function {name!r}; it has {', '.join(map(repr, found)) or 'none'}")
    return found[name]


def _check_inputs(name: str, entry: ir.Block, inputs: Sequence[torch.Tensor]) -> None:
    if len(inputs) != len(entry.arguments):
        raise CuestaError(f"function {name!r} takes {len(entry.arguments)} tensors, got {len(inputs)}")
    for i, (argument, given) in enumerate(zip(entry.arguments, inputs, strict=True)):
        if not _fits(given, argument):
            raise CuestaError(f"argument {i} of {name!r} is {argument.type}, got {_describe(given)}")


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    run = REFERENCES.get(op.name)
    if run is None:
        raise Unsupported(f"{op.name} has no reference in torch, at {op.location}")
    try:
        results = run(op, _as_traced(op, operands))
    except Exception as problem:
        raise ExecutionError(f"{op.name} failed: {problem}, at {op.location}") from problem
    found = list(results) if isinstance(results, (list, tuple)) else [results]
    if len(found) != len(op.results):
        raise VerifyError(f"{op.name} has {len(op.results)} results, its reference {len(found)}, at {op.location}")
    for result, value in zip(op.results, found, strict=True):
        if not _fits(value, result):
            raise VerifyError(
                f"{op.name} claims {result.type}, its reference gave {_describe(value)}, at {op.location}"
            )
    return found


def _as_traced(op: ir.Operation, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    """The operands with the strides that the op was traced with. The result of as_strided, for one, depends on them."""
    wanted = aten.Call.operand_strides.find(op) if aten.Call.matches(op) else None
    if wanted is None:
        return operands
    return [
        x if strides is None else with_strides(x, [at(n, {}) for n in strides])
        for x, strides in zip(operands, wanted, strict=True)
    ]


def with_strides(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """x in memory of these strides; if several elements share an address, the first is stored."""
    if list(x.stride()) == list(strides):
        return x
    moved = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    if 0 in strides:
        # Dims of stride 0 hold one element: write that one.
        once = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)
        moved[once] = x[once]
        return moved
    return moved.copy_(x)


def _fits(value: torch.Tensor, place: ir.Value) -> bool:
    return tuple(value.shape) == types.shape_of(place) and types.SPELLING.get(value.dtype) == types.spelling_of(place)


def _describe(value: torch.Tensor) -> str:
    sizes = "x".join(map(str, (*value.shape, types.SPELLING.get(value.dtype, value.dtype))))
    return f"tensor<{sizes}>"
