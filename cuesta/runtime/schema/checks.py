"""Checks of JSON, made from types: a TypedDict, a Literal or a list says what is valid, and `check_of` makes its check.

    class Tensor(TypedDict):
        sizes: list[Annotated[int, whole("a size is 0 or more")]]

    check = check_of(Tensor)
    check({"sizes": [2, -4]})      # raises Wrong; its path is .sizes[1], its text "-4; a size is 0 or more"

A check returns nothing and raises `Wrong`. A path is put together only where something is wrong, from the inside out,
so that valid data costs little: a load of 2,000 steps runs about 50,000 checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from cuesta.errors import ArtefactError

Check: TypeAlias = Callable[[Any], None]

#: Sizes, offsets and counts of bytes are at most this: C++ keeps them in 64 bits with a sign.
MOST = (1 << 63) - 1
#: Characters of a wrong value that a message shows.
_SHOWN = 60


class Wrong(Exception):
    """A value that is not valid, and where it is in what was checked."""

    def __init__(self, found: object, valid: str) -> None:
        """`found` is the wrong value; `valid` says what is valid."""
        super().__init__(valid)
        self.path = ""
        self.found, self.valid = found, valid

    def within(self, step: str) -> Wrong:
        """The same, seen from one level further out."""
        self.path = step + self.path
        return self

    def text(self, whole: str) -> str:
        """The message, where `whole` is the name of what was checked."""
        return f"{whole}{self.path}: {_shown(self.found)}; {self.valid}"


def _shown(value: object) -> str:
    """The value as JSON has it; of a list or an object, which may be long, the kind."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@contextmanager
def refusing(whole: str) -> Iterator[None]:
    """Makes an ArtefactError of what is Wrong within it, or nested too deep; `whole` names what is checked."""
    try:
        yield
    except Wrong as wrong:
        raise ArtefactError(wrong.text(whole)) from None
    except RecursionError:
        raise ArtefactError(f"{whole}: nested too deep; no program of cuesta's is") from None


# -- what single values may be ----------------------------------------------------------------
def whole(valid: str, least: int = 0, most: int = MOST) -> Check:
    """A whole number from `least` to `most`. True and False are none, though Python counts them as such."""

    def check(value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise Wrong(value, valid)

    return check


def text(value: Any) -> None:
    """Any text that can be printed: JSON may hold halves of characters, which no file or terminal takes."""
    if type(value) is not str:
        raise Wrong(value, "a text is valid")
    if not value.isascii():  # few are
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Wrong(value, "a text of whole characters is valid") from None


def real(value: Any) -> None:
    """A number, which may be infinite."""
    if type(value) not in (int, float):
        raise Wrong(value, "a number is valid")


def boolean(value: Any) -> None:
    if type(value) is not bool:
        raise Wrong(value, "true or false is valid")


def null(value: Any) -> None:
    if value is not None:
        raise Wrong(value, "null is valid")


def an_object(value: Any) -> None:
    """An object, whatever is in it."""
    if type(value) is not dict:
        raise Wrong(value, "an object is valid")


def one_of(choices: tuple[Any, ...]) -> Check:
    """One of a few texts or numbers."""
    listed = ", ".join(map(str, choices))

    def check(value: Any) -> None:
        if type(value) not in (str, int) or value not in choices:
            raise Wrong(value, f"valid are {listed}")

    return check


# -- what holds others ------------------------------------------------------------------------
def listing(item: Check) -> Check:
    """A list of any length."""

    def check(value: Any) -> None:
        if type(value) is not list:
            raise Wrong(value, "a list is valid")
        number = 0
        try:
            for number, each in enumerate(value):  # noqa: B007  the number is for the message
                item(each)
        except Wrong as wrong:
            raise wrong.within(f"[{number}]") from None

    return check


def row(items: tuple[Check, ...]) -> Check:
    """A list of as many values as there are checks."""

    def check(value: Any) -> None:
        if type(value) is not list or len(value) != len(items):
            raise Wrong(value, f"a list of {len(items)} is valid")
        for number, (each, item) in enumerate(zip(value, items, strict=True)):
            try:
                item(each)
            except Wrong as wrong:
                raise wrong.within(f"[{number}]") from None

    return check


def table(key: Check, item: Check) -> Check:
    """An object whose keys are data."""

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise Wrong(value, "an object is valid")
        for name, each in value.items():
            try:
                key(name)
                item(each)
            except Wrong as wrong:
                raise wrong.within(f"[{_shown(name)}]") from None

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """An object with these keys and no others."""
    wanted, checks = required.keys(), {**required, **optional}

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise Wrong(value, "an object is valid")
        if value.keys() != wanted:
            _check_keys(value, required, checks)
        name = ""
        try:
            for name, each in value.items():
                checks[name](each)
        except Wrong as wrong:
            raise wrong.within(f".{name}") from None

    return check


def _check_keys(value: Mapping[str, Any], required: Mapping[str, Check], known: Mapping[str, Check]) -> None:
    for name in value:
        if name not in known:
            raise Wrong(name, f"an unknown key; known are {', '.join(known)}")
    for name in required:
        if name not in value:
            raise Wrong(None, "this key is missing").within(f".{name}")


def tagged(key: str, kinds: Mapping[str, Check]) -> Check:
    """An object whose `key` says which of several kinds it is."""
    tag = one_of(tuple(kinds))

    def check(value: Any) -> None:
        if type(value) is not dict or key not in value:
            raise Wrong(value, f"an object with {key!r} is valid")
        try:
            tag(value[key])
        except Wrong as wrong:
            raise wrong.within(f".{key}") from None
        kinds[value[key]](value)

    return check


def either(checks: tuple[Check, ...]) -> Check:
    """A value that passes one of the checks; the message is that of the last one."""
    *first, last = checks

    def check(value: Any) -> None:
        for other in first:
            try:
                other(value)
                return
            except Wrong:
                pass
        last(value)

    return check


# -- from types to checks ---------------------------------------------------------------------
_PLAIN: dict[Any, Check] = {str: text, bool: boolean, float: real, int: whole("a whole number is valid", -MOST - 1)}


def check_of(kind: Any) -> Check:
    """The check of a type: str, bool, int, float, None, a Literal, a list, a tuple (a list of that length), a dict, a
    union, a TypedDict, or `Annotated` with a check, which then is the whole check."""
    if is_typeddict(kind):
        fields = get_type_hints(kind, include_extras=True)
        # Not by __optional_keys__, which does not see into annotations that are kept as text.
        optional = {name for name, field in fields.items() if get_origin(field) is NotRequired}
        return record(
            {name: check_of(field) for name, field in fields.items() if name not in optional},
            {name: check_of(*get_args(fields[name])) for name in optional},
        )
    arguments = get_args(kind)
    match get_origin(kind):
        case None:
            return null if kind in (None, NoneType) else _PLAIN[kind]
        case origin if origin is Annotated:
            made: Check = arguments[1]
            return made
        case origin if origin is Literal:
            return one_of(arguments)
        case origin if origin is list:
            return listing(check_of(arguments[0]))
        case origin if origin is tuple:
            return row(tuple(map(check_of, arguments)))
        case origin if origin is dict:
            return table(check_of(arguments[0]), check_of(arguments[1]))
        case origin if origin in (Union, UnionType):
            # None is the cheapest, and says the least where it does not hold.
            return either(tuple(map(check_of, sorted(arguments, key=lambda a: a is not NoneType))))
    raise TypeError(f"no check is known for {kind}")
