"""Calls programs by their calling convention: maps AOTAutograd's boxed list of arguments to a program's tensors and
back."""

from __future__ import annotations

import functools
import itertools
import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuesta.errors import CompileError
from cuesta.frontend.convention import Convention, Output
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.symbols import reader
from cuesta.runtime.executable import Executable

log = logging.getLogger("cuesta")

Boxed = Callable[[list[Any]], list[Any]]
Run = Callable[[list[torch.Tensor]], list[torch.Tensor]]

#: Sets of sizes for which a program keeps tables. A set takes a few KB and a millisecond to make.
KEPT_SIZES = 256


def as_boxed(call: Boxed) -> Boxed:
    """Marks a callable as one that takes its arguments in a list, which it may empty; AOTAutograd reads the mark."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def bind(run: Run, convention: Convention, gm: torch.fx.GraphModule) -> Boxed:
    """A boxed callable around the call of a graph's program."""
    constants = [attribute(gm, name) for name in convention.constants]
    return bind_values(run, convention, constants, takes_tensors_only(gm))


def bind_values(run: Run, convention: Convention, constants: Sequence[torch.Tensor], tensors_only: bool) -> Boxed:
    """A boxed callable around a program's own call.

    It empties the list that it gets, as AOTAutograd expects. While the program runs, only the list that is passed to it
    holds the arguments, so that the program can free those that are donated.
    """
    constants = list(constants)
    outputs, chosen = convention.outputs, convention.tensor_arguments
    plain = [o.index for o in outputs] == list(range(len(outputs))) and all(o.kind == "tensor" for o in outputs)
    given = [o.index for o in outputs if o.kind == "argument"]
    values = [o.value for o in outputs if o.kind == "value"]
    places = _places(outputs, len(given) + len(values))
    take = _taker(chosen)

    def call(args: list[Any]) -> list[Any]:
        tensors = take(args) + constants
        others = [args[i] for i in given] + values
        args.clear()
        results = run(tensors)
        if plain:
            return results
        results += others
        return [results[i] for i in places]

    def call_plain(args: list[Any]) -> list[Any]:
        results = run(args)
        args.clear()
        return results

    def call_chosen(args: list[Any]) -> list[Any]:
        tensors = take(args)
        args.clear()
        return run(tensors)

    boxed: Boxed = call
    if plain and not constants:
        boxed = call_plain if tensors_only and chosen == list(range(len(chosen))) else call_chosen
    return as_boxed(boxed)


def bind_sized(
    program: Executable,
    convention: Convention,
    gm: torch.fx.GraphModule,
    otherwise: Boxed,
    around: Callable[[Executable], Run] = lambda program: program,
) -> Boxed:
    """A boxed callable around a program with symbolic sizes.

    For each set of sizes it calls `around` on the program with its size tables filled in, and keeps the most recently
    used sets. Sets that the program does not admit go to `otherwise`.
    """
    names = [source.name for source in convention.sources]
    read = reader(convention.sources)

    @functools.lru_cache(maxsize=KEPT_SIZES)
    def sized(values: tuple[int, ...]) -> Boxed:
        known = dict(zip(names, values, strict=True))
        if not program.admits(known):
            return otherwise
        try:
            own = program.with_sizes(known)
        except CompileError as problem:  # a kernel that only these sizes need did not compile
            log.warning("the sizes %s get a program of their own: %s", known, problem)
            return otherwise
        return bind(around(own), convention.with_sizes(known), gm)

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        return sized(read(args))(args)

    return call


def _taker(positions: Sequence[int]) -> Callable[[list[Any]], list[Any]]:
    """A function that takes the elements at these positions out of a list into a new list."""
    first = positions[0] if positions else 0
    if list(positions) == list(range(first, first + len(positions))):  # the usual case: tensors after the numbers
        return operator.itemgetter(slice(first, first + len(positions)))
    return lambda args: [args[i] for i in positions]


def _places(outputs: Sequence[Output], others: int) -> list[int]:
    """The index of each output in the list of results, then arguments, then values; the last two count from the end."""
    arguments = itertools.count(-others)
    values = itertools.count(-sum(o.kind == "value" for o in outputs))
    counters = {"argument": arguments, "value": values}
    return [o.index if o.kind == "tensor" else next(counters[o.kind]) for o in outputs]


def takes_tensors_only(gm: torch.fx.GraphModule) -> bool:
    """Whether all of a graph's arguments are tensors."""
    return all(isinstance(n.meta.get("val"), torch.Tensor) for n in gm.graph.nodes if n.op == "placeholder")
