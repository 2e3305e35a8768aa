"""Defines a kernel before and after Triton, and converts both to bytes for pipes and for the disk."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

#: Programs of a kernel along x, y and z; text in terms of its parameters p0, p1, … if the count depends on them.
Grid: TypeAlias = "tuple[int | str, int | str, int | str]"


@dataclass(frozen=True)
class KernelText:
    """A kernel before Triton: `text` is a module in MLIR's generic form with one tt.func in it."""

    name: str
    text: str
    warps: int
    stages: int

    def to_bytes(self) -> bytes:
        head = asdict(self)
        del head["text"]
        return pack(head, self.text.encode())

    @staticmethod
    def from_bytes(data: bytes) -> KernelText:
        """The kernel that `to_bytes` wrote."""
        head, text = unpack(data)
        return KernelText(text=text.decode(), **head)


@dataclass(frozen=True)
class KernelBinary:
    """A kernel after Triton: a cubin, an hsaco or SPIR-V."""

    name: str
    code: bytes
    #: bytes of shared memory that a launch asks for
    shared: int
    warps: int
    #: what the driver looks up in `code`
    symbol: str
    #: registers of a thread, and bytes of its spills; None where the compiler does not say
    registers: int | None
    spills: int | None
    #: PTX or AMD's assembly; None where nobody asked for it
    assembly: str | None = None

    def to_bytes(self) -> bytes:
        head = asdict(self)
        del head["code"]
        return pack(head, self.code)

    @staticmethod
    def from_bytes(data: bytes) -> KernelBinary:
        """Raises ValueError for bytes that `to_bytes` did not write."""
        try:
            head, code = unpack(data)
            return KernelBinary(code=code, **_checked(head))
        except (struct.error, TypeError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"not a kernel: {error}") from None


#: Field in the head of a kernel's bytes → the types that it may have.
_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "shared": (int,),
    "warps": (int,),
    "symbol": (str,),
    "registers": (int, type(None)),
    "spills": (int, type(None)),
    "assembly": (str, type(None)),
}


def _checked(head: dict[str, Any]) -> dict[str, Any]:
    """The head of a kernel's bytes; raises TypeError where a field is unknown, missing or of another type."""
    if not isinstance(head, dict) or head.keys() != _TYPES.keys():
        raise TypeError(f"a kernel's head has the fields {', '.join(_TYPES)}")
    for name, types in _TYPES.items():
        if type(head[name]) not in types:
            raise TypeError(f"field {name} is a {type(head[name]).__name__}, not a {types[0].__name__}")
    return head


_SIZES = struct.Struct("<QQ")  # bytes of the head, bytes of the body


def pack(head: dict[str, Any], body: bytes) -> bytes:
    """A message: the lengths of both parts, `head` as JSON, and `body` unchanged."""
    encoded = json.dumps(head).encode()
    return _SIZES.pack(len(encoded), len(body)) + encoded + body


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The head and the body that `pack` was given."""
    head, body = _SIZES.unpack_from(data)
    start = _SIZES.size + head
    return json.loads(data[_SIZES.size : start]), data[start : start + body]


def receive(read: Callable[[int], bytes | None]) -> tuple[dict[str, Any], bytes] | None:
    """The next message of a pipe; None at its end. `read(n)` returns at most n bytes, none at the end."""
    sizes = _read_all(read, _SIZES.size)
    if sizes is None:
        return None
    rest = _read_all(read, sum(_SIZES.unpack(sizes)))
    return None if rest is None else unpack(sizes + rest)


def _read_all(read: Callable[[int], bytes | None], count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = read(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
