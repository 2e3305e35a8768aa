"""What machine code takes for granted of how it is called, as a digest that the code itself states.

    @cuesta_interface = constant: SHA-256 of the sizes, offsets and slots that the metadata give

The code reads and writes memory by numbers that were compiled into it: the arena's bytes, the sizes of the arguments,
the count of its slots. The metadata beside it repeat these numbers, for those who allocate and pass that memory.
Metadata that are valid by themselves but belong to other code would have it write past the end of what is allocated,
so a program is loaded only where the code states the digest of these very metadata.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cuesta.errors import ArtefactError

#: The symbol of the digest, 32 bytes.
INTERFACE = "cuesta_interface"

#: What the code does not depend on: the words of error messages (their count it does), numbers for the report, and
#: what a GPU's kernels take, which changes as their code is made; of those the names count.
_APART = frozenset({"steps", "memory", "kernels"})


def digest_of(program: Mapping[str, Any]) -> bytes:
    """The digest of an artefact's "program"."""
    parts = {key: value for key, value in program.items() if key not in _APART}
    parts |= {"steps": len(program["steps"]), "kernels": [kernel["name"] for kernel in program["kernels"]]}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def check_interface(symbols: Mapping[str, int], entry: str, program: Mapping[str, Any]) -> None:
    """Raises ArtefactError unless loaded code, by the addresses of its symbols, was compiled for this program."""
    for name in (entry, INTERFACE):
        if name not in symbols:
            raise ArtefactError(f"the machine code defines no {name}: it is not a program's")
    if ctypes.string_at(symbols[INTERFACE], hashlib.sha256().digest_size) != digest_of(program):
        raise ArtefactError("program: it is not what the machine code beside it was compiled for")
