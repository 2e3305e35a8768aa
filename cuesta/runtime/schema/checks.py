"""Makes checks of JSON from types: `check_of` makes the check for a TypedDict, a Literal, a list and other types.

    class Tensor(TypedDict):
        sizes: list[Annotated[int, whole("a size is 0 or more")]]

    check = check_of(Tensor)
    check({"sizes": [2, -4]})      # raises Wrong; its path is .sizes[1], its text "-4; a size is 0 or more"

A check returns nothing, or raises `Wrong`. The path is built only for wrong values, from the inside out, so that valid
data costs little: loading a program of 2,000 steps runs about 50,000 checks.
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

#: The largest size, offset or count of bytes: C++ keeps them in signed 64-bit integers.
MOST = (1 << 63) - 1
#: The most characters of a wrong value that a message shows.
_SHOWN = 60


class Wrong(Exception):
    """Raised for an invalid value. Knows the value's path in the data that was checked."""

    def __init__(self, found: object, valid: str) -> None:
        """`found` is the wrong value; `valid` says what is valid."""
        super().__init__(valid)
        self.path = ""
        self.found, self.valid = found, valid

    def within(self, step: str) -> Wrong:
        """Prepends a step to the path, for one level further out, and returns self."""
        self.path = step + self.path
        return self

    def text(self, whole: str) -> str:
        """The message; `whole` is the name of the data that were checked."""
        return f"{whole}{self.path}: {_shown(self.found)}; {self.valid}"


def _shown(value: object) -> str:
    """The value as text, shortened; for a list or an object only its kind and length."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@contextmanager
def refusing(whole: str) -> Iterator[None]:
    """Turns Wrong and RecursionError into an ArtefactError. `whole` is the name of the data that are checked."""
    try:
        yield
    except Wrong as wrong:
        raise ArtefactError(wrong.text(whole)) from None
    except RecursionError:
        raise ArtefactError(f"{whole}: nested too deep; no program of cuesta's is") from None


# -- checks of single values ------------------------------------------------------------------
def whole(valid: str, least: int = 0, most: int = MOST) -> Check:
    """A whole number from `least` to `most`. True and False do not count, though they are ints in Python."""

    def check(value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise Wrong(value, valid)

    return check


def text(value: Any) -> None:
    """Any text that can be encoded. JSON may hold half a surrogate pair, which cannot be written or printed."""
    if type(value) is not str:
        raise Wrong(value, "a text is valid")
    if not value.isascii():  # a fast test, as nearly all texts are ASCII
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
    """A JSON object with any content."""
    if type(value) is not dict:
        raise Wrong(value, "an object is valid")


def one_of(choices: tuple[Any, ...]) -> Check:
    """One of the given texts or numbers."""
    listed = ", ".join(map(str, choices))

    def check(value: Any) -> None:
        if type(value) not in (str, int) or value not in choices:
            raise Wrong(value, f"valid are {listed}")

    return check


# -- checks of containers ---------------------------------------------------------------------
def listing(item: Check) -> Check:
    """A list of any length, each item of which passes `item`."""

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
    """A list with one value for each check."""

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
    """An object whose keys are data: each key passes `key`, and each value passes `item`."""

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
    """An object whose value of `key` selects one of several checks."""
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
    """A value that passes at least one of the checks. An error message comes from the last check."""
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
    """The check for a type: str, bool, int, float, None, a Literal, a list, a tuple (a JSON list of that length), a
    dict, a union, a TypedDict, or `Annotated` with a check, which replaces the check of the annotated type."""
    if is_typeddict(kind):
        fields = get_type_hints(kind, include_extras=True)
        # __optional_keys__ would miss NotRequired in annotations that are kept as text.
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
            # None goes first: its check is the cheapest, and its message is the least useful.
            return either(tuple(map(check_of, sorted(arguments, key=lambda a: a is not NoneType))))
    raise TypeError(f"no check is known for {kind}")
