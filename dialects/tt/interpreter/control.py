"""Interprets scf on numpy arrays: all programs run together, with those masked that have left a loop or a branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cuesta._mlir import ir
from cuesta.dialects.tt.interpreter.program import Builder, Execution, Run, Steps, Values, get, maker
from cuesta.dialects.tt.interpreter.values import Array


def _per_program(condition: Array, like: Array) -> Array:
    return condition.reshape(condition.shape + (1,) * (like.ndim - 1))


def _choose(condition: Array, x: Sequence[Array], y: Sequence[Array]) -> list[Array]:
    return [np.where(_per_program(condition, a), a, b) for a, b in zip(x, y, strict=True)]


def _among(run: Run, condition: Array) -> Array:
    """`condition`, but false for programs that are not active."""
    return condition if run.active is None else condition & run.active


def _parted(run: Run, active: Array, body: Callable[[], list[Array]]) -> list[Array]:
    """Runs `body` with only the programs of `active`."""
    before, run.active = run.active, np.broadcast_to(active, run.programs)
    try:
        return body()
    finally:
        run.active = before


def _all_agree(run: Run, condition: Array) -> bool | None:
    """True if `condition` holds for all active programs, False if it holds for none, None if they differ."""
    held = condition if run.active is None else np.broadcast_to(condition, run.programs)[run.active]
    if held.all():
        return True
    return None if held.any() else False


@maker("scf.for")
def _for(builder: Builder, op: ir.Operation) -> Execution:
    body = builder.block(op.regions[0].blocks[0])
    low, high, step, *initial = (builder.slot(v) for v in op.operands)
    outputs = [builder.slot(v) for v in op.results]

    def execute(run: Run, values: Values) -> None:
        index, end, stride = (get(values, s) for s in (low, high, step))
        carried = [get(values, s) for s in initial]
        while True:
            inside = index < end
            agreed = _all_agree(run, inside)
            if agreed is False:
                break
            if agreed:
                carried = body.run(run, values, [index, *carried])
            else:
                carried = _masked(run, values, inside, index, carried)
            index = index + stride
        for slot, x in zip(outputs, carried, strict=True):
            values[slot] = x

    def _masked(run: Run, values: Values, inside: Array, index: Array, carried: list[Array]) -> list[Array]:
        active = _among(run, inside)
        after = _parted(run, active, lambda: body.run(run, values, [index, *carried]))
        return _choose(active, after, carried)

    return execute


@maker("scf.if")
def _if(builder: Builder, op: ir.Operation) -> Execution:
    branches = [
        builder.block(region.blocks[0]) if len(region.blocks) else Steps(terminator="scf.yield")
        for region in op.regions
    ]
    condition_slot = builder.slot(op.operands[0])
    outputs = [builder.slot(v) for v in op.results]

    def execute(run: Run, values: Values) -> None:
        condition = get(values, condition_slot)
        agreed = _all_agree(run, condition)
        if agreed is None:
            first = _parted(run, _among(run, condition), lambda: branches[0].run(run, values))
            second = _parted(run, _among(run, ~condition), lambda: branches[1].run(run, values))
            taken = _choose(condition, first, second)
        else:
            taken = branches[0 if agreed else 1].run(run, values)
        for slot, x in zip(outputs, taken, strict=True):
            values[slot] = x

    return execute


@maker("scf.while")
def _while(builder: Builder, op: ir.Operation) -> Execution:
    before, after = (builder.block(region.blocks[0]) for region in op.regions)
    initial = [builder.slot(v) for v in op.operands]
    outputs = [builder.slot(v) for v in op.results]

    def execute(run: Run, values: Values) -> None:
        entered = run.active
        try:
            results = loop(run, values)
        finally:
            run.active = entered
        for slot, x in zip(outputs, results, strict=True):
            values[slot] = x

    def loop(run: Run, values: Values) -> list[Array]:
        """Narrows `run.active` to the programs that are still in the loop."""
        condition, *results = before.run(run, values, [get(values, s) for s in initial])
        passed = results
        while (agreed := _all_agree(run, condition)) is not False:
            if agreed is None:
                run.active = np.broadcast_to(_among(run, condition), run.programs)
            condition, *passed = before.run(run, values, after.run(run, values, passed))
            results = passed if run.active is None else _choose(run.active, passed, results)
        return results

    return execute
