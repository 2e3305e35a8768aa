"""Interprets scf on numpy arrays: all programs run together, with those masked that have left a loop or a branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cuesta._mlir import ir, scf
from cuesta.dialects.tt.interpreter.program import Builder, Execution, Run, Steps, maker
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


@maker(scf.ForOp)
def _for(builder: Builder, op: ir.Operation) -> Execution:
    body = builder.block(op.regions[0].blocks[0])

    def loop(run: Run, x: list[Array]) -> list[Array]:
        index, end, step, *carried = x
        while (agreed := _all_agree(run, inside := index < end)) is not False:
            carried = body.run(run, [index, *carried]) if agreed else masked(run, inside, [index, *carried])
            index = index + step
        return carried

    def masked(run: Run, inside: Array, x: list[Array]) -> list[Array]:
        active = _among(run, inside)
        return _choose(active, _parted(run, active, lambda: body.run(run, x)), x[1:])

    return builder.bind(op, loop)


@maker(scf.IfOp)
def _if(builder: Builder, op: ir.Operation) -> Execution:
    branches = [builder.block(region.blocks[0]) if len(region.blocks) else Steps() for region in op.regions]

    def branch(run: Run, x: list[Array]) -> list[Array]:
        (condition,) = x
        agreed = _all_agree(run, condition)
        if agreed is not None:
            return branches[0 if agreed else 1].run(run)
        first = _parted(run, _among(run, condition), lambda: branches[0].run(run))
        second = _parted(run, _among(run, ~condition), lambda: branches[1].run(run))
        return _choose(condition, first, second)

    return builder.bind(op, branch)


@maker(scf.WhileOp)
def _while(builder: Builder, op: ir.Operation) -> Execution:
    before, after = (builder.block(region.blocks[0]) for region in op.regions)

    def enter(run: Run, x: list[Array]) -> list[Array]:
        entered = run.active
        try:
            return loop(run, x)
        finally:
            run.active = entered

    def loop(run: Run, x: list[Array]) -> list[Array]:
        """Narrows `run.active` to the programs that are still in the loop."""
        condition, *results = before.run(run, x)
        passed = results
        while (agreed := _all_agree(run, condition)) is not False:
            if agreed is None:
                run.active = np.broadcast_to(_among(run, condition), run.programs)
            condition, *passed = before.run(run, after.run(run, passed))
            results = passed if run.active is None else _choose(run.active, passed, results)
        return results

    return builder.bind(op, enter)
