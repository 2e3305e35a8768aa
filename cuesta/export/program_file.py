"""Reads and writes the file of an exported program: a zip of description, code and weights. Imports no MLIR, no pickle.

program.json     format, the torch and CPU that it was made for, the signature, the place of each weight
code             the artefact (runtime/artefact.py)
storage/0 …      the memory of the weights, each storage once, however many tensors share it

program_archive.py opens, writes and signs the zip.
"""

from __future__ import annotations

import errno
import itertools
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cuesta.driver.loading import load as load_code
from cuesta.errors import ArtefactError, InputError
from cuesta.export.program_archive import as_key, as_path, open_archive, write_archive
from cuesta.export.program_content import Content, MadeFor, Weight, read_json, read_member, read_signature, read_weights
from cuesta.export.signature import Signature
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.executable import Executable
from cuesta.runtime.machine import instructions
from cuesta.runtime.schema.metadata import read_artefact
from cuesta.torch_private.tensors import address

_FORMAT = 1
_KIND = "cuesta exported program"
_SPELLINGS = {dtype: name for name, dtype in DTYPES.items()}


def read_program(
    path: str | Path, weights: Mapping[str, torch.Tensor] | None, key: bytes | None
) -> tuple[Artefact, Executable, Signature, dict[str, torch.Tensor]]:
    """Reads the parts of the program that `write_program` wrote into `path`. `weights` take precedence over those in
    the file. Raises what `cuesta.load` does, except for weights that do not fit."""
    path = as_path(path, "cuesta.load")
    _check_mapping(weights)
    with open_archive(path, as_key(key)) as archive:
        try:
            content = read_json(archive, lambda content: _check_origin(path, content))
            artefact = read_artefact(read_member(archive, "code"))
            signature = read_signature(content, artefact.metadata)
            executable = load_code(artefact)
            kept = read_weights(archive, content["weights"], artefact.metadata["program"])
        except ArtefactError as error:
            raise ArtefactError(f"{path} cannot be loaded as a program: {error}") from error
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error, OverflowError) as error:
            raise ArtefactError(f"{path} is damaged, or not a program that cuesta saved: {error}") from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # zipfile seeks to the offsets in the file's list of parts, which may be before the file's beginning.
            raise ArtefactError(f"{path} is damaged: its zip directory points outside of the file") from error
    return artefact, executable, signature, {**kept, **(weights or {})}


def write_program(
    path: Path, artefact: Artefact, signature: Signature, weights: Mapping[str, torch.Tensor] | None, key: bytes | None
) -> Path:
    """Writes the file, whole or not at all, and signs it if there is a key. Raises what `ExportedProgram.save` does."""
    try:
        described = signature.as_dict()
    except NotImplementedError as error:
        raise ArtefactError(f"arguments or results are in a container that cannot be saved: {error}") from None
    entries, storages = _describe_weights(weights or {})
    content: Content = {
        "kind": _KIND,
        "format": _FORMAT,
        **origin(),
        "signature": described,
        "weights": entries,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ArtefactError(f"an argument that the export fixed cannot be written: {error}") from None
    code = artefact.to_bytes()
    data = ((f"storage/{number}", _bytes_of(storage)) for number, storage in enumerate(storages))
    write_archive(path, itertools.chain([("program.json", text), ("code", code)], data), key)
    return path


def _check_mapping(weights: Any) -> None:
    """Raises InputError unless weights are a dict of names to tensors."""
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError(
            f"weights takes a dict of names to tensors, as state_dict() gives, got {weights!r} "
            f"({type(weights).__name__})"
        )
    for name, value in (weights or {}).items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise InputError(f"weights takes a dict of names to tensors; {name!r} is a {type(value).__name__}")


def origin() -> MadeFor:
    """What a program made here needs to run: this torch, and a CPU with these instructions."""
    return {"torch": _release(torch.__version__), "instructions": sorted(instructions())}


def check_origin(what: str, made_for: Mapping[str, Any]) -> None:
    """Raises ArtefactError if the program `what`, made for `made_for` (a result of `origin`), cannot run here."""
    if made_for.get("torch") != _release(torch.__version__):
        raise ArtefactError(
            f"{what} was made with torch {made_for.get('torch')}, and calls into it; this is torch {torch.__version__}"
        )
    listed = made_for.get("instructions")
    missing = set(map(str, listed if isinstance(listed, list) else ())) - instructions()
    if missing:
        raise ArtefactError(
            f"{what} was made for a CPU that has {', '.join(sorted(missing))}, which this one lacks: export and "
            "compile it on this machine"
        )


def _check_origin(path: Path, content: Mapping[str, Any]) -> None:
    if content.get("kind") != _KIND:
        raise ArtefactError(f"{path} is not a program that cuesta saved")
    if content.get("format") != _FORMAT:
        raise ArtefactError(f"{path} is of format {content.get('format')}; this version reads format {_FORMAT}")
    check_origin(str(path), content)


def _release(version: str) -> str:
    """The version without the build's devices: "2.13.0" of "2.13.0+cpu"."""
    return version.partition("+")[0]


def _describe_weights(weights: Mapping[str, torch.Tensor]) -> tuple[dict[str, Weight], list[torch.UntypedStorage]]:
    entries: dict[str, Weight] = {}
    numbers: dict[int, int] = {}
    storages: list[torch.UntypedStorage] = []
    for name, tensor in weights.items():
        storage = tensor.untyped_storage()
        number = numbers.setdefault(address(storage), len(storages))
        if number == len(storages):
            storages.append(storage)
        entries[name] = {
            "storage": number,
            "device": str(tensor.device),
            "offset": int(tensor.storage_offset()),
            "sizes": list(tensor.shape),
            "strides": list(tensor.stride()),
            "dtype": _SPELLINGS[tensor.dtype],
            "parameter": isinstance(tensor, torch.nn.Parameter),
        }
    return entries, storages


def _bytes_of(storage: torch.UntypedStorage) -> Any:
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return flat.cpu().numpy().data
