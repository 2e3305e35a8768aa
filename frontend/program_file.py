"""The file of an exported program: a zip of what it says, its code and its weights. Imports no MLIR, and no pickle.

program.json     format, torch and CPU that it was made for, the signature, where each weight lies
code             the artefact (runtime/artefact.py)
storage/0 …      the memory of the weights, each storage once, however many tensors share it
"""

from __future__ import annotations

import errno
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cuesta.errors import ArtefactError
from cuesta.frontend.exported_program import ExportedProgram, Signature
from cuesta.frontend.loading import load as load_code
from cuesta.frontend.program_content import read_json, read_member, read_signature, read_weights
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.machine import instructions
from cuesta.runtime.schema.metadata import read_artefact

_FORMAT = 1
_KIND = "cuesta exported program"
_SPELLINGS = {dtype: name for name, dtype in DTYPES.items()}


def load(path: str | Path, weights: Mapping[str, torch.Tensor] | None = None) -> ExportedProgram:
    """The program that `ExportedProgram.save` wrote into `path`, ready to be called; needs no MLIR and no compiler.

    `weights` go before those in the file, which may hold none. Raises ArtefactError for a file that is damaged,
    foreign, or made for another torch or CPU, InputError for weights that are missing or others than it was compiled
    for, DeviceError where it needs a GPU that is not there, OSError where the file cannot be read.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            content = read_json(archive, lambda content: _check_origin(path, content))
            artefact = read_artefact(read_member(archive, "code"))
            signature = read_signature(content, artefact.metadata)
            executable = load_code(artefact)
            kept = read_weights(archive, content["weights"], artefact.metadata["program"])
    except ArtefactError as error:
        raise ArtefactError(f"{path} is no program that can be loaded: {error}") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error, OverflowError) as error:
        raise ArtefactError(f"{path} is damaged, or not a program that cuesta saved: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # zipfile goes to wherever the file says that its parts are, which may be before its beginning.
        raise ArtefactError(f"{path} is damaged: its list of parts leads out of the file") from error
    return ExportedProgram(artefact, executable, signature, {**kept, **(weights or {})})


def write_program(
    path: Path, artefact: Artefact, signature: Signature, weights: Mapping[str, torch.Tensor] | None
) -> Path:
    """Writes the file, whole or not at all. Raises what `ExportedProgram.save` does."""
    try:
        described = signature.as_dict()
    except NotImplementedError as error:
        raise ArtefactError(f"arguments or results are arranged in what no file can name: {error}") from None
    entries, storages = _describe_weights(weights or {})
    content = {
        "kind": _KIND,
        "format": _FORMAT,
        "torch": _release(torch.__version__),
        "instructions": sorted(instructions()),
        "signature": described,
        "weights": entries,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ArtefactError(f"an argument that the export fixed cannot be written: {error}") from None
    descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with open(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("program.json", text)
            archive.writestr("code", artefact.to_bytes())
            for number, storage in enumerate(storages):
                archive.writestr(f"storage/{number}", _bytes_of(storage))
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's files are for the user alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _check_origin(path: Path, content: Mapping[str, Any]) -> None:
    if content.get("kind") != _KIND:
        raise ArtefactError(f"{path} is not a program that cuesta saved")
    if content.get("format") != _FORMAT:
        raise ArtefactError(f"{path} is of format {content.get('format')}; this version reads format {_FORMAT}")
    if content.get("torch") != _release(torch.__version__):
        raise ArtefactError(
            f"{path} was made with torch {content.get('torch')}, and calls into it; this is torch {torch.__version__}"
        )
    listed = content.get("instructions")
    missing = set(map(str, listed if isinstance(listed, list) else ())) - instructions()
    if missing:
        raise ArtefactError(
            f"{path} was made for a CPU that has {', '.join(sorted(missing))}, which this one lacks: export and "
            "compile it on this machine"
        )


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
