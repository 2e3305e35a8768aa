"""Reads and writes artefacts: an artefact holds the native code of a compiled graph and the metadata to call it.

    bytes:  magic  version  length of JSON  length of objects  length of kernels  SHA-256 of the rest
            | JSON | objects | kernels, one after another; JSON has their names and sizes

Artefacts are never pickled: a cache may hold artefacts that somebody else wrote, and reading one must not run code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Annotated, NotRequired, TypedDict

from cuesta.errors import ArtefactError
from cuesta.runtime.schema.checks import an_object, check_of, refusing, whole
from cuesta.runtime.schema.convention import Convention
from cuesta.runtime.schema.program import Program
from cuesta.runtime.schema.report import Report

_MAGIC = b"cuestaA\n"  # if the file was converted as text, the newline differs
_VERSION = 4
_HEADER = struct.Struct("<8sIQQQ32s")


class Metadata(TypedDict):
    """All metadata of an artefact. The convention is added once the graph is compiled."""

    convention: NotRequired[Convention]
    program: Program
    report: Report


class _Content(TypedDict):
    """The JSON: the symbol of the host function, the metadata, and the name and size of each kernel's code."""

    entry: str
    metadata: Annotated[Metadata, an_object]
    kernels: list[tuple[str, Annotated[int, whole("a count of bytes is 0 or more")]]]


_check_content = check_of(_Content)


@dataclass(frozen=True)
class Artefact:
    """A compiled graph as it is cached, and loaded to run it."""

    objects: bytes
    """A relocatable object: host function, and on CPU the kernels."""
    entry: str
    """The symbol of the host function in `objects`."""
    metadata: Metadata
    """Plain JSON: string keys, lists not tuples, no NaN."""
    kernels: dict[str, bytes] = field(default_factory=dict)
    """The code of a GPU's kernels, by name."""

    def to_bytes(self) -> bytes:
        """The artefact as bytes. Raises ArtefactError for metadata that JSON would not read back as they are."""
        sizes = [[name, len(code)] for name, code in self.kernels.items()]
        content = {"entry": self.entry, "metadata": self.metadata, "kernels": sizes}
        try:
            text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ArtefactError(f"the metadata of {self.entry} is not plain JSON: {error}") from error
        # A tuple or an int key would make a graph from a warm cache behave differently from one just compiled.
        if json.loads(text) != content:
            changed = [key for key, value in self.metadata.items() if not _survives_json({key: value})]
            raise ArtefactError(
                f"the metadata of {self.entry} is not plain JSON: {', '.join(map(str, changed))} would be read back "
                "as something else; string keys, lists instead of tuples and no NaN are valid"
            )
        return framed(text, self.objects, b"".join(self.kernels.values()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Artefact:
        """Reads what `to_bytes` wrote. Raises ArtefactError for bytes that are foreign, damaged or cut short.

        Does not check the metadata: schema.read_artefact does that, for bytes from a file.
        """
        text, objects, code = unframed(data)
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArtefactError(f"not an artefact that this version wrote: {error!r}") from error
        with refusing("artefact"):
            _check_content(content)
        kernels, start = {}, 0
        for name, size in content["kernels"]:
            kernels[name] = code[start : start + size]
            start += size
        if start != len(code) or len(kernels) != len(content["kernels"]):
            raise ArtefactError(f"damaged artefact: the listed kernels do not fill the {len(code)} bytes of kernels")
        return cls(objects, content["entry"], content["metadata"], kernels)


def framed(text: bytes, objects: bytes, kernels: bytes) -> bytes:
    """The bytes of an artefact with these sections: a header with lengths and checksum, then the sections."""
    header = _HEADER.pack(_MAGIC, _VERSION, len(text), len(objects), len(kernels), _digest(text, objects, kernels))
    return header + text + objects + kernels


def unframed(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The sections of an artefact: JSON, objects and kernels. Raises ArtefactError as `from_bytes` does."""
    if len(data) < _HEADER.size:
        raise ArtefactError(f"not an artefact: {len(data)} bytes, and the header alone takes {_HEADER.size}")
    magic, version, text_size, objects_size, kernels_size, digest = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ArtefactError(f"not an artefact: it begins with {magic!r}, not {_MAGIC!r}")
    if version != _VERSION:
        raise ArtefactError(f"an artefact of format {version}; this version reads format {_VERSION}")
    expected = _HEADER.size + text_size + objects_size + kernels_size
    if len(data) != expected:
        raise ArtefactError(f"damaged artefact: {len(data)} bytes instead of {expected}")
    text = data[_HEADER.size : _HEADER.size + text_size]
    objects = data[_HEADER.size + text_size : expected - kernels_size]
    kernels = data[expected - kernels_size :]
    if _digest(text, objects, kernels) != digest:
        raise ArtefactError("damaged artefact: checksum differs")
    return text, objects, kernels


def _digest(text: bytes, *sections: bytes) -> bytes:
    digest = hashlib.sha256(len(text).to_bytes(8, "little"))
    digest.update(text)
    for section in sections:
        digest.update(section)
    return digest.digest()


def _survives_json(value: object) -> bool:
    return bool(json.loads(json.dumps(value)) == value)
