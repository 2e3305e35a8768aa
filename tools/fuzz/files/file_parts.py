"""Splits a file of cuesta's into parts, and joins parts to a file with valid checksums.

A cache entry has the parts "json" and "objects". A program's file has "program.json", the artefact's "json" and
"objects", and "storage/0" and so on.
"""

from __future__ import annotations

import io
import zipfile

from cuesta.runtime.artefact import framed, unframed
from cuesta.tools.fuzz.files.specimens import Entry, Specimen

_CODE = "code"


def parts_of(specimen: Specimen) -> dict[str, bytes]:
    """The parts of an unchanged specimen, by name."""
    if isinstance(specimen, Entry):
        return _artefact_parts(specimen.artefact())
    with zipfile.ZipFile(io.BytesIO(specimen.data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return {**_artefact_parts(parts.pop(_CODE)), **parts}


def _artefact_parts(artefact: bytes) -> dict[str, bytes]:
    text, objects, _ = unframed(artefact)  # a CPU's artefact has no separate section of kernels
    return {"json": text, "objects": objects}


def put_together(specimen: Specimen, parts: dict[str, bytes]) -> bytes:
    """The file that consists of the given parts."""
    others = dict(parts)
    artefact = framed(others.pop("json"), others.pop("objects"), b"")
    if isinstance(specimen, Entry):
        return specimen.framed(artefact)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {_CODE: artefact, **others}.items():
            archive.writestr(name, content)
    return data.getvalue()
