"""Where the numbers behind a graph's symbolic sizes come from: its arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.errors import Unsupported
from cuesta.frontend.rules import strides_of
from cuesta.sizes import Size, hint, number, symbols


@dataclass(frozen=True)
class Source:
    """A symbol is argument `argument` of the call, or the size of that tensor along `dim`."""

    name: str
    argument: int
    dim: int | None
    #: Its value in the call that was traced.
    hint: int


def bind_symbols(placeholders: Sequence[torch.fx.Node]) -> list[Source]:
    """A source for each symbol in the arguments' sizes and strides.

    Raises Unsupported where one appears only within larger expressions.
    """
    found: dict[str, Source] = {}
    seen: set[str] = set()

    def see(value: Any, argument: int, dim: int | None) -> None:
        if not isinstance(value, torch.SymInt):
            return
        known = number(value)
        seen.update(symbols(known))
        if isinstance(known, Size) and known.is_symbol:
            about = int(value.node.hint) if value.node.has_hint() else hint(known)
            found.setdefault(str(known), Source(str(known), argument, dim, about))

    for i, placeholder in enumerate(placeholders):
        value = placeholder.meta.get("val")
        see(value, i, None)
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                see(size, i, dim)
            seen.update(*(symbols(n) for n in strides_of(value)))
    if missing := seen - set(found):
        raise Unsupported(f"the sizes {', '.join(sorted(missing))} are no argument's own")
    return list(found.values())


def reader(sources: Sequence[Source]) -> Callable[[list[Any]], tuple[int, ...]]:
    """The values of the symbols, from a call's arguments."""
    places = [(s.argument, s.dim) for s in sources]
    if places and all(dim is None for _, dim in places):
        first, *others = (i for i, _ in places)
        return operator.itemgetter(first, *others) if others else lambda args: (args[first],)
    return lambda args: tuple(int(args[i]) if dim is None else args[i].shape[dim] for i, dim in places)
