"""An artefact is read back as it was written, or refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from cuesta.errors import ArtefactError
from cuesta.runtime.artefact import Artefact

ARTEFACT = Artefact(
    objects=bytes(range(256)) * 3,
    entry="graph_4f1c",
    metadata={"outputs": [{"shape": [2, 3], "stride": [3, 1], "dtype": "float32"}], "arena": 4096, "note": "größer"},
    kernels={"exp": bytes(range(40))},
)


def test_round_trip() -> None:
    assert Artefact.from_bytes(ARTEFACT.to_bytes()) == ARTEFACT
    assert Artefact.from_bytes(Artefact(b"", "f", {}).to_bytes()) == Artefact(b"", "f", {})


def test_kernels_keep_their_names_and_their_order() -> None:
    kernels = {"softmax": b"\x7fELF" + bytes(90), "empty": b"", "add": b"\0\1"}
    read = Artefact.from_bytes(Artefact(b"code", "f", {}, kernels).to_bytes())
    assert list(read.kernels.items()) == list(kernels.items())
    assert read.objects == b"code"


def test_equal_artefacts_are_equal_bytes() -> None:
    reordered = Artefact(ARTEFACT.objects, ARTEFACT.entry, dict(reversed(ARTEFACT.metadata.items())), ARTEFACT.kernels)
    assert reordered.to_bytes() == ARTEFACT.to_bytes()


def test_every_truncation_and_every_addition_is_refused() -> None:
    data = ARTEFACT.to_bytes()
    for length in range(len(data)):
        with pytest.raises(ArtefactError):
            Artefact.from_bytes(data[:length])
    with pytest.raises(ArtefactError, match="damaged artefact"):
        Artefact.from_bytes(data + b"\0")


def test_every_flipped_byte_is_refused() -> None:
    data = ARTEFACT.to_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(ArtefactError):
            Artefact.from_bytes(bytes(damaged))


def test_names_what_is_foreign() -> None:
    data = ARTEFACT.to_bytes()
    with pytest.raises(ArtefactError, match="begins with b'PK"):
        Artefact.from_bytes(b"PK\3\4" + bytes(200))
    with pytest.raises(ArtefactError, match="format 77; this version reads format 4"):
        Artefact.from_bytes(data[:8] + struct.pack("<I", 77) + data[12:])
    with pytest.raises(ArtefactError, match="checksum differs"):
        Artefact.from_bytes(data[:-1] + b"\0")


@pytest.mark.parametrize("value", [(1, 2), {1: "one"}, float("nan"), {"deep": [(1,)]}, b"bytes", {1, 2}])
def test_metadata_that_json_would_change_is_refused(value: Any) -> None:
    with pytest.raises(ArtefactError, match="metadata of f is not plain JSON"):
        Artefact(b"", "f", {"fine": 1, "bad": value}).to_bytes()
