"""A file of cuesta's, taken apart and put together again with every checksum redone.

Parts of an entry of the cache: "json", "objects". Of a program's file: "program.json", the artefact's "json" and
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
    text, objects, _ = unframed(artefact)  # on a CPU no kernels have a section of their own
    return {"json": text, "objects": objects}


def put_together(specimen: Specimen, parts: dict[str, bytes]) -> bytes:
    """The file of these parts."""
    others = dict(parts)
    artefact = framed(others.pop("json"), others.pop("objects"), b"")
    if isinstance(specimen, Entry):
        return specimen.framed(artefact)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {_CODE: artefact, **others}.items():
            archive.writestr(name, content)
    return data.getvalue()
