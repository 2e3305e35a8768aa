"""Finds which argument of a call gives the value of each symbolic size in a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from cuesta.errors import Unsupported
from cuesta.frontend.rules import strides_of
from cuesta.sizes import Number, Size, hint, number, of_sympy, symbols
from cuesta.sizes.facts import primitive


@dataclass(frozen=True)
class Source:
    """Where a symbol's value is read: argument `argument` of the call itself, or that tensor's size along `dim`."""

    name: str
    argument: int
    dim: int | None
    #: The symbol's value in the traced call.
    hint: int


def bind_symbols(placeholders: Sequence[Node]) -> list[Source]:
    """A source for each symbol in the arguments' sizes and strides.

    Raises Unsupported where a symbol appears only within larger expressions.
    """
    found: dict[str, Source] = {}
    seen: set[str] = set()
    unhinted: dict[str, torch.SymInt] = {}

    def see(value: Any, argument: int, dim: int | None) -> None:
        if not isinstance(value, torch.SymInt):
            return
        known = number(value)
        seen.update(symbols(known))
        if isinstance(known, Size) and known.is_symbol:
            about = int(value.node.hint) if value.node.has_hint() else hint(known)
            found.setdefault(str(known), Source(str(known), argument, dim, about))
            if not value.node.has_hint():
                unhinted[str(known)] = value

    for i, placeholder in enumerate(placeholders):
        value = placeholder.meta.get("val")
        see(value, i, None)
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                see(size, i, dim)
            seen.update(*(symbols(n) for n in strides_of(value)))
    if missing := seen - set(found):
        raise Unsupported(f"no argument has exactly {', '.join(sorted(missing))} as a size or value")
    about = {name: source.hint for name, source in found.items() if name not in unhinted}
    for name, value in unhinted.items():
        about[name] = _allowed(value, found[name].hint, about)
    return [replace(source, hint=about[source.name]) for source in found.values()]


def _allowed(value: torch.SymInt, usual: int, others: Mapping[str, int]) -> int:
    """A hint for a data-dependent symbol: `usual`, or the next smaller value that torch's runtime checks allow. Compile
    decisions compare hints, so that a hint must be possible: a tensor of 6 rows has no row 64. `others` are the hints
    of other symbols."""
    environment, symbol = value.node.shape_env, value.node.expr
    known = environment.bound_sympy(symbol)
    low, high = (int(n) if n.is_Integer else default for n, default in ((known.lower, 0), (known.upper, usual)))
    checks = [check.expr for check in environment.deferred_runtime_asserts.get(symbol, ())]
    checks = [c for c in checks if {str(s) for s in c.free_symbols} - {str(symbol)} <= others.keys()]

    def holds(check: Any, number: int) -> bool:
        return bool(check.subs({s: others.get(str(s), number) for s in check.free_symbols}))

    first = max(low, min(usual, high))
    tried = [first, *(n for n in range(min(first, 33) - 1, low - 1, -1))]
    return next((n for n in tried if all(holds(check, n) for check in checks)), first)


def zeros(placeholders: Sequence[Node], sources: Sequence[Source]) -> tuple[str, ...]:
    """Expressions of sizes that torch's guards fix to 0: `s0 % 2` where the graph takes half of s0, for example.

    Equations that torch can solve for a symbol are not included: its shapes contain the solution already.
    """
    known, found = {source.name for source in sources}, dict[str, None]()
    for environment in _environments(placeholders):
        for guard in environment.guards:
            for equation in guard.expr.args if type(guard.expr).__name__ == "And" else (guard.expr,):
                if type(equation).__name__ == "Equality":
                    zero = _difference(environment.replace(equation.lhs), environment.replace(equation.rhs))
                    if isinstance(zero, Size) and symbols(zero) <= known:
                        found[str(zero)] = None
    return tuple(found)


def _environments(placeholders: Sequence[Node]) -> Collection[Any]:
    """The ShapeEnvs of the symbols in a graph's arguments; usually one."""
    values = [node.meta.get("val") for node in placeholders]
    sizes = [size for v in values for size in (v.shape if isinstance(v, torch.Tensor) else (v,))]
    found = [size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)]
    return {id(environment): environment for environment in found}.values()


def _difference(x: Any, y: Any) -> Number:
    try:
        return primitive(of_sympy(x) - of_sympy(y))
    except Unsupported:  # `cuesta.sizes` cannot express the equation
        return 0


def reader(sources: Sequence[Source]) -> Callable[[list[Any]], tuple[int, ...]]:
    """A function from a call's arguments to the values of the symbols, in the order of `sources`."""
    places = [(s.argument, s.dim) for s in sources]
    if places and all(dim is None for _, dim in places):
        first, *others = (i for i, _ in places)
        return operator.itemgetter(first, *others) if others else lambda args: (args[first],)
    return lambda args: tuple(int(args[i]) if dim is None else args[i].shape[dim] for i, dim in places)
