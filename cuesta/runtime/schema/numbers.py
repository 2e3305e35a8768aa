"""Sizes, strides and offsets as an artefact spells them: a number, or text in terms of the call's symbols."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, TypeAlias

from cuesta.runtime.schema.checks import MOST, Check, Wrong
from cuesta.sizes import Size, parse, symbols

#: Characters of a size's text. Those of real programs have some 100.
_LONGEST = 10_000

#: The symbols that a size may name; None where nobody knows them.
_KNOWN: ContextVar[frozenset[str] | None] = ContextVar("known symbols", default=None)


@contextmanager
def known_symbols(names: frozenset[str] | None) -> Iterator[None]:
    """Within it, sizes may name these symbols and no others."""
    token = _KNOWN.set(names)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def number(valid: str, least: int = 0) -> Check:
    """A number of at least `least`, or a text whose value only a call tells."""

    def check(value: Any) -> None:
        if type(value) is int:
            if not least <= value <= MOST:
                raise Wrong(value, valid)
        else:
            check_text(value, valid, least)

    return check


def check_text(value: Any, valid: str, least: int) -> None:
    """A text that is a size, of known symbols."""
    if type(value) is not str:
        raise Wrong(value, valid)
    try:
        names, constant = _read(value)
    except ValueError as problem:
        raise Wrong(value, str(problem)) from None
    if constant is not None and not least <= constant <= MOST:
        raise Wrong(value, valid)
    known = _KNOWN.get()
    if known is not None and not names <= known:
        raise Wrong(
            value, f"it names {', '.join(sorted(names - known))}; known are {', '.join(sorted(known)) or 'none'}"
        )


def names_in(value: int | str) -> frozenset[str]:
    """The symbols that a number which was checked names."""
    return frozenset() if isinstance(value, int) else _read(value)[0]


@functools.lru_cache(maxsize=4096)
def _read(value: str) -> tuple[frozenset[str], int | None]:
    """The symbols that a text names, and its value where it names none. Raises ValueError for text that is no size."""
    if len(value) > _LONGEST:
        raise ValueError(f"a size of {len(value)} characters; up to {_LONGEST} are read")
    try:
        found = parse(value)
    except (RecursionError, MemoryError):
        raise ValueError("a size nested too deep") from None
    if isinstance(found, Size):
        return frozenset(symbols(found)), None
    if type(found) is not int:
        raise ValueError("sums, products, // and % of numbers and names are sizes")
    return frozenset(), found


SizeNumber: TypeAlias = Annotated["int | str", number("a size is 0 or more")]
Stride: TypeAlias = Annotated["int | str", number("a stride is 0 or more")]
Offset: TypeAlias = Annotated["int | str", number("an offset is 0 or more")]
Word: TypeAlias = Annotated["int | str", number("a word is a number of 64 bits", -MOST - 1)]
