"""The file of an exported program: a zip of what it says, its code and its weights. Imports no MLIR, and no pickle.

program.json     format, torch and CPU that it was made for, the signature, where each weight lies
code             the artefact (runtime/artefact.py)
storage/0 …      the memory of the weights, each storage once, however many tensors share it

program_archive.py has how the zip is opened, written and signed.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cuesta.errors import ArtefactError, InputError
from cuesta.frontend.exported_program import ExportedProgram, Signature
from cuesta.frontend.loading import load as load_code
from cuesta.frontend.program_archive import as_key, as_path, open_archive, write_archive
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.machine import instructions

_FORMAT = 1
_KIND = "cuesta exported program"
_SPELLINGS = {dtype: name for name, dtype in DTYPES.items()}


def load(
    path: str | Path, weights: Mapping[str, torch.Tensor] | None = None, *, key: bytes | None = None
) -> ExportedProgram:
    """The program that `ExportedProgram.save` wrote into `path`, ready to be called; needs no MLIR and no compiler.

    `weights` go before those in the file, which may hold none. A program is code: it is loaded where nobody else can
    write its file or folder, or where it was signed with `key`, which is checked before anything else is read.

    Raises SignatureError for a program that `key` did not sign, UnsafeFileError for a file that others could have
    written, ArtefactError (which both are) for one that is damaged, foreign, or made for another torch or CPU,
    InputError for weights that are missing or others than it was compiled for, and for a path, weights or a key that
    are none, DeviceError where it needs a GPU that is not there, OSError where the file cannot be read.
    """
    path = as_path(path, "cuesta.load")
    _check_mapping(weights)
    with open_archive(path, as_key(key)) as archive:
        try:
            content = json.loads(archive.read("program.json"))
            _check_kind(path, content)
            check_origin(str(path), content)
            artefact = Artefact.from_bytes(archive.read("code"))
            kept = _read_weights(archive, content["weights"])
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
            raise ArtefactError(f"{path} is damaged, or not a program that cuesta saved: {error}") from error
    try:
        signature = Signature.from_dict(content["signature"])
    except (KeyError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
        raise ArtefactError(
            f"{path} names containers that this process does not know; import the library that defines them: {error}"
        ) from error
    return ExportedProgram(artefact, load_code(artefact), signature, {**kept, **(weights or {})})


def write_program(
    path: Path, artefact: Artefact, signature: Signature, weights: Mapping[str, torch.Tensor] | None, key: bytes | None
) -> Path:
    """Writes the file, whole or not at all, and signs it where there is a key. Raises what `ExportedProgram.save`
    does."""
    try:
        described = signature.as_dict()
    except NotImplementedError as error:
        raise ArtefactError(f"arguments or results are arranged in what no file can name: {error}") from None
    entries, storages = _describe_weights(weights or {})
    content = {
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
    """Raises InputError for weights that are no dict of names to tensors."""
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError(
            f"weights wants a dict of names to tensors, as state_dict() gives, got {weights!r} "
            f"({type(weights).__name__})"
        )
    for name, value in (weights or {}).items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise InputError(f"weights wants a dict of names to tensors; {name!r} is a {type(value).__name__}")


def origin() -> dict[str, Any]:
    """What a program that is made here can run with: this torch, and a CPU that has these instructions."""
    return {"torch": _release(torch.__version__), "instructions": sorted(instructions())}


def check_origin(what: str, made_for: Mapping[str, Any]) -> None:
    """Raises ArtefactError where `what`, a program of whose origin `made_for` tells, cannot run here."""
    if made_for["torch"] != _release(torch.__version__):
        raise ArtefactError(
            f"{what} was made with torch {made_for['torch']}, and calls into it; this is torch {torch.__version__}"
        )
    missing = set(made_for["instructions"]) - instructions()
    if missing:
        raise ArtefactError(
            f"{what} was made for a CPU that has {', '.join(sorted(missing))}, which this one lacks: export and "
            "compile it on this machine"
        )


def _check_kind(path: Path, content: Mapping[str, Any]) -> None:
    if content.get("kind") != _KIND:
        raise ArtefactError(f"{path} is not a program that cuesta saved")
    if content["format"] != _FORMAT:
        raise ArtefactError(f"{path} is of format {content['format']}; this version reads format {_FORMAT}")


def _release(version: str) -> str:
    """Without what says for which devices torch was built: "2.13.0" of "2.13.0+cpu"."""
    return version.partition("+")[0]


def _describe_weights(weights: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], list[torch.UntypedStorage]]:
    entries: dict[str, Any] = {}
    numbers: dict[int, int] = {}
    storages: list[torch.UntypedStorage] = []
    for name, tensor in weights.items():
        storage = tensor.untyped_storage()
        number = numbers.setdefault(storage._cdata, len(storages))
        if number == len(storages):
            storages.append(storage)
        entries[name] = {
            "storage": number,
            "device": str(tensor.device),
            "offset": tensor.storage_offset(),
            "sizes": list(tensor.shape),
            "strides": list(tensor.stride()),
            "dtype": _SPELLINGS[tensor.dtype],
            "parameter": isinstance(tensor, torch.nn.Parameter),
        }
    return entries, storages


def _bytes_of(storage: torch.UntypedStorage) -> Any:
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return flat.cpu().numpy().data


def _read_weights(archive: zipfile.ZipFile, entries: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    storages: dict[tuple[int, str], torch.UntypedStorage] = {}
    weights = {}
    for name, entry in entries.items():
        key = (entry["storage"], entry["device"])
        if key not in storages:
            data = archive.read(f"storage/{entry['storage']}")
            # Memory of torch's own, aligned as kernels expect it.
            flat = torch.empty(len(data), dtype=torch.uint8)
            if data:
                flat.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            storages[key] = flat.to(entry["device"]).untyped_storage()
        tensor = torch.empty(0, dtype=DTYPES[entry["dtype"]], device=entry["device"])
        tensor.set_(storages[key], entry["offset"], entry["sizes"], entry["strides"])
        weights[name] = torch.nn.Parameter(tensor, requires_grad=False) if entry["parameter"] else tensor
    return weights
