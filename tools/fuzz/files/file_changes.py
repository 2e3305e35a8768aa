"""Draws and applies random changes of a file's bytes and of its JSON fields. Each change is plain JSON, so repeatable.

{"part": "json", "do": "set", "path": ["metadata", "program", "results", 0, "sizes", 1], "value": -4}
{"part": "", "do": "flip", "at": 1234, "value": 16}            the part "" is the file as it stands
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

Change: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]

#: Attribute of `builtins` that a file's text sets if it is run as Python, which must not happen.
MARK = "cuesta_fuzz_ran"
#: Modules that nothing else imports; loading a file that names one must not import it.
FOREIGN = ("this", "antigravity", "turtledemo.clock")
_PYTHON = f"setattr(__import__('builtins'), '{MARK}', 1)"
#: Placeholders for a deeply nested and a long list, which are too large for a text of changes.
DEEP, LONG = "$deep", "$long"

_TEXTS = (
    *("", "x", "\0", "\ud800", "größer", "cpu", "meta", "cuda:0", "f32", "i128", "argument", "base", "aten", "%9"),
    *("s0", "s0*s0", "-1", "1//0", "a0", "True", "(" * 90 + "1" + ")" * 90, "(a+b)*" * 40 + "1", "9" * 5000),
    *(_PYTHON, f"1) or {_PYTHON} or (1", f"0]; {_PYTHON} #", "import_module.this.x", "aten.add.Tensor", "a.b.c"),
    *(json.dumps([1, {"type": "collections.defaultdict", "context": {"default_factory_module": name,
        "default_factory_name": "x", "dict_context": []}, "children_spec": []}]) for name in FOREIGN),
    json.dumps([1, {"type": "builtins.dict", "children_spec": [],
        "context": json.dumps([{"__enum__": True, "fqn": f"{FOREIGN[0]}:x", "name": "y"}])}]),
)  # fmt: skip
_NUMBERS = (
    *(0, 1, 2, 3, 7, 64, -1, -4, 255, 4096, 1 << 20, 1 << 31, 1 << 40),
    *((1 << 62) + 1, 1 << 63, -(1 << 63), 1 << 80),
)
_OTHERS: tuple[Any, ...] = (None, True, False, 0.5, -0.0, 1e300, [], {}, [0], [[]], {"a": 1}, [-1, "x"], DEEP, LONG)


def make_changes(text: Callable[[str], bytes], names: Sequence[str], rng: random.Random) -> list[Change]:
    """Random changes of a file with the parts `names`; `text` gives the bytes of a part."""
    if rng.random() < 0.2:
        return [_byte_change("", rng) for _ in range(rng.choice((1, 1, 1, 2, 5)))]
    part = rng.choice(names)
    if rng.random() < 0.1:
        return [_byte_change(part, rng)]
    if not part.endswith("json"):
        return [{"part": part, "do": rng.choice(("cut", "insert")), "at": rng.randrange(1 << 30), "value": 7}]
    document = json.loads(text(part))
    return [_field_change(part, document, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]


def _byte_change(part: str, rng: random.Random) -> Change:
    do = rng.choice(("flip", "flip", "flip", "cut", "drop", "insert", "repeat", "zero"))
    return {"part": part, "do": do, "at": rng.randrange(1 << 30), "value": rng.randrange(1, 256)}


def _field_change(part: str, document: Any, rng: random.Random) -> Change:
    path, value = rng.choice(list(_fields(document)))
    change: Change = {"part": part, "path": list(path)}
    if isinstance(value, (dict, list)) and rng.random() < 0.7:
        if isinstance(value, dict):
            do, value = rng.choice(("add", "rename")), rng.choice(("x", "owner", "\u00e9", "kwargs"))
            return change | {"do": do, "value": value}
        return change | {"do": rng.choice(("drop", "again", "swap", "add")), "value": rng.choice(_NUMBERS)}
    if path and rng.random() < 0.15:
        return change | {"do": "remove"}
    return change | {"do": "set", "value": _another(value, document, rng)}


def _another(value: Any, document: Any, rng: random.Random) -> Any:
    """A new value for a field: near the old value, of the same kind, of another kind, or another field's value."""
    if rng.random() < 0.2:
        return rng.choice([v for _, v in _fields(document) if not isinstance(v, (dict, list))])
    if type(value) is int and rng.random() < 0.7:
        return rng.choice((value + 1, value - 1, value * 2, -value, *_NUMBERS))
    if type(value) is bool and rng.random() < 0.5:
        return not value
    if type(value) is str and rng.random() < 0.7:
        return rng.choice((*_TEXTS, value + "x", value[:-1], _PYTHON + value))
    return rng.choice((*_NUMBERS, *_TEXTS, *_OTHERS))


def _fields(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The path and value of every field of a document, including lists and objects."""
    yield path, value
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _fields(each, (*path, key))


def apply_to_bytes(data: bytes, change: Change) -> bytes:
    """The bytes with a change applied."""
    at, value = change["at"] % (len(data) + 1), change["value"]
    before, after = data[:at], data[at:]
    match change["do"]:
        case "flip":
            return before + bytes([after[0] ^ value]) + after[1:] if after else before
        case "cut":
            return before
        case "drop":
            return before + after[value:]
        case "insert":
            return before + bytes([value]) * value + after
        case "repeat":
            return before + after[:value] * 2 + after[value:]
    return before + bytes(min(value, len(after))) + after[value:]


def apply_to_json(document: Any, change: Change) -> Any:
    """The document with a field changed, in place if possible. Skips a field that an earlier change removed."""
    path: list[Any] = ["", *change["path"]]
    outer, last = path[:-1], path[-1]
    holder: Any = {"": document}
    try:
        for key in outer:
            holder = holder[key]
        _apply(holder, last, change)
    except (KeyError, IndexError, TypeError, AttributeError):
        return document
    return holder[""] if not outer else document


def _apply(holder: Any, key: Any, change: Change) -> None:
    value = holder[key]
    match change["do"]:
        case "set":
            holder[key] = change["value"]
        case "remove":
            del holder[key]
        case "add":
            if isinstance(value, list):
                value.append(change["value"])
            elif isinstance(value, dict):  # neither, after some earlier changes
                value[change["value"]] = 1
        case "rename":
            name = next(iter(value), None)
            value[change["value"]] = value.pop(name) if name is not None else 0
        case "drop":
            del value[-1:]
        case "again":
            value.extend(value[-1:])
        case "swap":
            value.reverse()


def spelled(document: Any) -> bytes:
    """A changed document as JSON, with the placeholders expanded."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    text = text.replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    return text.replace(json.dumps(LONG), f"[{'0,' * 100_000}0]").encode()
