"""Checks sizes, strides and offsets as an artefact spells them: a number, or text in terms of the call's symbols."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, TypeAlias

from cuesta.runtime.schema.checks import MOST, Check, Wrong
from cuesta.sizes import Size, parse, symbols

#: Matches a product of sums in a text. Only with such products can a text expand to many more terms than characters.
_MAY_GROW = re.compile(r"\)\s*\*|\*\s*[(+-]")
#: The most terms of a size, expanded into a sum. Sizes of real programs have about 10; this many take a fraction of a
#: second.
_MOST_TERMS = 1 << 16

#: The most characters of a size's text. Texts of real programs have about 100.
_LONGEST = 10_000

#: The symbols that a size may name; None if they are unknown, and any name is valid.
_KNOWN: ContextVar[frozenset[str] | None] = ContextVar("known symbols", default=None)


@contextmanager
def known_symbols(names: frozenset[str] | None) -> Iterator[None]:
    """Within this context, sizes may name only these symbols."""
    token = _KNOWN.set(names)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def number(valid: str, least: int = 0) -> Check:
    """Makes a check for a number of at least `least`, or a text of a symbolic size."""

    def check(value: Any) -> None:
        if type(value) is int:
            if not least <= value <= MOST:
                raise Wrong(value, valid)
        else:
            check_text(value, valid, least)

    return check


def check_text(value: Any, valid: str, least: int) -> None:
    """Raises Wrong unless `value` is the text of a size that names only known symbols."""
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
    """The symbols that a checked number or text names."""
    return frozenset() if isinstance(value, int) else _read(value)[0]


@functools.lru_cache(maxsize=4096)
def _read(value: str) -> tuple[frozenset[str], int | None]:
    """The symbols that a text names, and its value if it names none. Raises ValueError for text that is no size."""
    if len(value) > _LONGEST:
        raise ValueError(f"a size of {len(value)} characters; up to {_LONGEST} are read")
    try:
        if _MAY_GROW.search(value) and _terms(value) > _MOST_TERMS:
            raise ValueError("a size of more terms than any program's")
        found = parse(value)
    except (RecursionError, MemoryError):
        raise ValueError("a size nested too deep") from None
    if isinstance(found, Size):
        return frozenset(symbols(found)), None
    if type(found) is not int:
        raise ValueError("sums, products, // and % of numbers and names are sizes")
    return frozenset(), found


def _terms(value: str) -> int:
    """An upper bound of the terms of a text, expanded into a sum: a short product of sums may have millions. Raises
    ValueError for text that is no size."""
    try:
        return _terms_of(ast.parse(value, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{value[:60]!r} is not a size") from None


def _terms_of(node: ast.expr) -> int:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _terms_of(left) * _terms_of(right)
        case ast.BinOp(left=left, right=right):
            return _terms_of(left) + _terms_of(right)
        case ast.UnaryOp(operand=operand):
            return _terms_of(operand)
    return 1


SizeNumber: TypeAlias = Annotated["int | str", number("a size is 0 or more")]
Stride: TypeAlias = Annotated["int | str", number("a stride is 0 or more")]
Offset: TypeAlias = Annotated["int | str", number("an offset is 0 or more")]
Word: TypeAlias = Annotated["int | str", number("a word is a number of 64 bits", -MOST - 1)]
