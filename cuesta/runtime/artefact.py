"""The one artefact of a compiled graph: its native code, and what calling it takes.

    bytes:  magic  version  length of JSON  length of objects  SHA-256 of the rest | JSON | objects

Never pickle: an artefact from a cache that somebody else wrote may be refused, and cannot run while it is read.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from cuesta.errors import ArtefactError

_MAGIC = b"cuestaA\n"  # the newline shows a file that was mangled as text
_VERSION = 1
_HEADER = struct.Struct("<8sIQQ32s")


@dataclass(frozen=True)
class Artefact:
    """What is cached of a compiled graph, and loaded to run it."""

    objects: bytes
    """A relocatable object: host function and kernels."""
    entry: str
    """The symbol of the host function in `objects`."""
    metadata: dict[str, Any]
    """The plan, the metadata of the outputs, the report: plain JSON (string keys, lists not tuples, no NaN)."""

    def to_bytes(self) -> bytes:
        """The artefact as bytes. Raises ArtefactError for metadata that would be read back as something else."""
        content = {"entry": self.entry, "metadata": self.metadata}
        try:
            text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ArtefactError(f"the metadata of {self.entry} is not plain JSON: {error}") from error
        # A tuple or an int key would make a graph behave otherwise from a warm cache than from a cold one.
        if json.loads(text) != content:
            changed = [key for key, value in self.metadata.items() if not _survives_json({key: value})]
            raise ArtefactError(
                f"the metadata of {self.entry} is not plain JSON: {', '.join(map(str, changed))} would be read back "
                "as something else; string keys, lists instead of tuples and no NaN are valid"
            )
        digest = _digest(text, self.objects)
        return _HEADER.pack(_MAGIC, _VERSION, len(text), len(self.objects), digest) + text + self.objects

    @classmethod
    def from_bytes(cls, data: bytes) -> Artefact:
        """Reads what `to_bytes` wrote. Raises ArtefactError for bytes that are foreign, damaged or cut short."""
        if len(data) < _HEADER.size:
            raise ArtefactError(f"not an artefact: {len(data)} bytes, and the header alone takes {_HEADER.size}")
        magic, version, text_size, objects_size, digest = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ArtefactError(f"not an artefact: it begins with {magic!r}, not {_MAGIC!r}")
        if version != _VERSION:
            raise ArtefactError(f"an artefact of format {version}; this version reads format {_VERSION}")
        expected = _HEADER.size + text_size + objects_size
        if len(data) != expected:
            raise ArtefactError(f"damaged artefact: {len(data)} bytes instead of {expected}")
        text = data[_HEADER.size : _HEADER.size + text_size]
        objects = data[_HEADER.size + text_size :]
        if _digest(text, objects) != digest:
            raise ArtefactError("damaged artefact: checksum differs")
        try:
            content = json.loads(text)
            return cls(objects, content["entry"], content["metadata"])
        except (ValueError, TypeError, KeyError) as error:
            raise ArtefactError(f"not an artefact that this version wrote: {error!r}") from error


def _digest(text: bytes, objects: bytes) -> bytes:
    digest = hashlib.sha256(len(text).to_bytes(8, "little"))
    digest.update(text)
    digest.update(objects)
    return digest.digest()


def _survives_json(value: object) -> bool:
    return bool(json.loads(json.dumps(value)) == value)
