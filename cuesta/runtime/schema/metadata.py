"""Reads an artefact from a file's bytes and checks all of its metadata against one schema.

    artefact = read_artefact(data)      # ArtefactError: program.results[0].sizes[1]: -4; a size is 0 or more

The metadata of a program that was just compiled are not checked at run time; the tests check each that they compile.
"""

from __future__ import annotations

from collections.abc import Collection

from cuesta.errors import ArtefactError
from cuesta.runtime.artefact import Artefact, Metadata
from cuesta.runtime.schema.checks import check_of, refusing
from cuesta.runtime.schema.convention import check_convention, check_fit, symbols_of
from cuesta.runtime.schema.program import check_program
from cuesta.runtime.schema.report import Report

#: The symbol of the host function, in every artefact.
_ENTRY = "cuesta_main"
_PARTS = tuple(Metadata.__annotations__)

_check_report = check_of(Report)


def read_artefact(data: bytes) -> Artefact:
    """Reads an artefact that `to_bytes` wrote, and checks its metadata.

    Raises ArtefactError, which names the field by its path, for damaged, foreign or crafted bytes.
    """
    artefact = Artefact.from_bytes(data)
    if artefact.entry != _ENTRY:
        raise ArtefactError(f"entry: {artefact.entry!r}; {_ENTRY!r} is valid")
    check_metadata(artefact.metadata, artefact.kernels)
    return artefact


def check_metadata(metadata: Metadata, code: Collection[str]) -> None:
    """Raises ArtefactError unless the metadata have a valid program, convention and report. `code` are the names of the
    kernels whose code the artefact has."""
    for name in _PARTS:
        if name not in metadata:
            raise ArtefactError(f"{name}: this key is missing")
    for name in metadata:
        if name not in _PARTS:
            raise ArtefactError(f"{name}: an unknown key; known are {', '.join(_PARTS)}")
    with refusing("convention"):
        check_convention(metadata["convention"])
    with refusing("program"):
        check_program(metadata["program"], symbols_of(metadata["convention"]), code)
    with refusing("report"):
        _check_report(metadata["report"])
    with refusing("convention"):
        check_fit(metadata["convention"], metadata["program"])
