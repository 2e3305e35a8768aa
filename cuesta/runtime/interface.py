"""Checks that machine code was compiled for the metadata beside it, by a digest of them that the code contains.

    @cuesta_interface = constant: SHA-256 of the sizes, offsets and slots that the metadata give

The code reads and writes memory by numbers that were compiled into it: the arena's bytes, the sizes of the arguments,
the count of its slots. The caller allocates and passes that memory by the same numbers in the metadata. With valid
metadata of another program, the code would write past the end of the memory, so a program is loaded only if its code
contains the digest of these very metadata.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping

from cuesta.errors import ArtefactError
from cuesta.runtime.schema.program import Program

#: The symbol of the digest, 32 bytes.
INTERFACE = "cuesta_interface"

#: Keys that the code does not depend on: error messages (only their count matters), numbers for the report, and the
#: launch data of a GPU's kernels, which change when their code is compiled (only their names matter).
_APART = frozenset({"steps", "memory", "kernels"})


def digest_of(program: Program) -> bytes:
    """The digest of an artefact's "program"."""
    parts = {key: value for key, value in program.items() if key not in _APART}
    parts |= {"steps": len(program["steps"]), "kernels": [kernel["name"] for kernel in program["kernels"]]}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def check_interface(symbols: Mapping[str, int], entry: str, program: Program) -> None:
    """Raises ArtefactError unless the loaded code was compiled for this program; `symbols` has the code's addresses."""
    for name in (entry, INTERFACE):
        if name not in symbols:
            raise ArtefactError(f"the machine code defines no {name}: it is not a program's")
    if ctypes.string_at(symbols[INTERFACE], hashlib.sha256().digest_size) != digest_of(program):
        raise ArtefactError("program: the machine code was compiled for another program than the metadata describe")
