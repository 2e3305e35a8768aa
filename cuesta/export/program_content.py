"""Reads the file of an exported program, and checks all of it before any of it is used.

Each ArtefactError names the field by its path: `program.json signature.inputs[2].kind: "wight"; valid are …`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

import torch

from cuesta.errors import ArtefactError
from cuesta.export.signature import Count, Signature, StoredSignature
from cuesta.export.treespecs import read_treespec
from cuesta.runtime.artefact import Metadata
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.calls import device
from cuesta.runtime.schema.checks import Wrong, an_object, check_of, refusing
from cuesta.runtime.schema.convention import check_arguments
from cuesta.runtime.schema.memory import extent_in_elements
from cuesta.runtime.schema.program import Program
from cuesta.runtime.schema.tensors import Dtype, check_dims
from cuesta.torch_private import pytree

_JSON = "program.json"
#: The rank of an argument that the program does not take, whose rank is unknown.
_ANY_RANK = 1 << 30


class Weight(TypedDict):
    """The place of a weight in its storage; sizes, strides and offset are in elements."""

    storage: Count
    device: Annotated[str, device]
    offset: Count
    sizes: list[Count]
    strides: list[Count]
    dtype: Dtype
    parameter: bool


class MadeFor(TypedDict):
    """The torch and the CPU that a program was made for."""

    torch: str
    instructions: list[str]


class Content(MadeFor):
    """All of program.json."""

    kind: str
    format: int
    signature: StoredSignature
    weights: dict[str, Weight]


_check_content = check_of(Content)


def read_json(archive: zipfile.ZipFile, check_origin: Callable[[Mapping[str, Any]], None]) -> Content:
    """Reads program.json. `check_origin` raises ArtefactError for a file of another version, whose keys may differ."""
    try:
        content: Any = json.loads(read_member(archive, _JSON))
    except (ValueError, RecursionError) as problem:
        raise ArtefactError(f"{_JSON}: not JSON: {problem}") from None
    with refusing(_JSON):
        an_object(content)
        check_origin(content)
        _check_content(content)
    made: Content = content
    return made


def read_signature(content: Content, metadata: Metadata) -> Signature:
    """The signature, checked against the metadata of the artefact in the same file."""
    described = content["signature"]
    specs = {key: read_treespec(described[key], f"{_JSON} signature.{key}") for key in ("in_spec", "out_spec")}
    with refusing(f"{_JSON} signature"):
        _check_specs(described, specs, len(metadata["convention"]["outputs"]))
    with refusing("convention"):
        if metadata["convention"]["constants"]:
            raise Wrong(
                metadata["convention"]["constants"], "an empty list is valid: a saved program has no constants"
            ).within(".constants")
        check_arguments(metadata["convention"], _ranks(described, metadata))
    return Signature.of(described, **specs)


def _check_specs(described: StoredSignature, specs: Mapping[str, pytree.TreeSpec], outputs: int) -> None:
    arguments, results = specs["in_spec"], specs["out_spec"]
    kinds = [arguments.child(i).type for i in range(arguments.num_children)]
    if arguments.type is not tuple or kinds != [tuple, dict]:
        raise Wrong(str(arguments), "a tuple of arguments and a dict of keywords is valid").within(".in_spec")
    if not all(type(name) is str for name in arguments.child(1).context):
        raise Wrong(str(arguments), "keywords are texts").within(".in_spec")
    numbers = [item["number"] for item in described["inputs"] if item["kind"] != "weight"]
    if sorted(numbers) != list(range(arguments.num_leaves)):
        raise Wrong(numbers, f"each number of {arguments.num_leaves} arguments once is valid").within(".inputs")
    if results.num_leaves != outputs:
        raise Wrong(results.num_leaves, f"the program has {outputs} outputs").within(".out_spec")


def _ranks(described: StoredSignature, metadata: Metadata) -> list[int | None]:
    """The rank of each argument of the graph, None for one that is no tensor."""
    taken = metadata["convention"]["tensor_arguments"]
    known = {i: len(t["sizes"]) for i, t in zip(taken, metadata["program"]["arguments"], strict=True)}
    return [
        None if item["kind"] == "constant" else known.get(i, _ANY_RANK) for i, item in enumerate(described["inputs"])
    ]


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member of the file, which must not be compressed, so that it takes no more memory than the file has bytes."""
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise ArtefactError(f"{name}: the file has no such part") from None
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 or member.file_size != member.compress_size:
        raise ArtefactError(f"{name}: compressed or encrypted, as cuesta writes nothing")
    return archive.read(name)


def read_weights(archive: zipfile.ZipFile, entries: Mapping[str, Weight], program: Program) -> dict[str, torch.Tensor]:
    """The weights by name; weights of one storage share memory. A weight may be on the CPU and on the program's devices
    only."""
    devices = {"cpu", program["device"], *program["elsewhere"]}
    storages: dict[tuple[int, str], torch.UntypedStorage] = {}
    weights = {}
    for name, entry in entries.items():
        key = (entry["storage"], entry["device"])
        with refusing(f"{_JSON} weights[{name!r}]"):
            if entry["device"] not in devices:
                raise Wrong(entry["device"], f"valid are {', '.join(sorted(devices))}").within(".device")
            if key not in storages:
                storages[key] = _storage(read_member(archive, f"storage/{entry['storage']}"), entry["device"])
            _check_inside(entry, storages[key].nbytes())
        tensor = torch.empty(0, dtype=DTYPES[entry["dtype"]], device=entry["device"])
        tensor.set_(storages[key], entry["offset"], entry["sizes"], entry["strides"])
        weights[name] = torch.nn.Parameter(tensor, requires_grad=False) if entry["parameter"] else tensor
    return weights


def _storage(data: bytes, where: str) -> torch.UntypedStorage:
    # Memory of torch's own, aligned as kernels expect it.
    flat = torch.empty(len(data), dtype=torch.uint8)
    if data:
        flat.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return flat.to(where).untyped_storage()


def _check_inside(entry: Weight, nbytes: int) -> None:
    """Raises Wrong unless a weight's last element is within its storage: torch would enlarge a storage that is too
    small."""
    check_dims(entry)
    end = (entry["offset"] + extent_in_elements(entry["sizes"], entry["strides"])) * DTYPES[entry["dtype"]].itemsize
    if end > nbytes:
        raise Wrong(end, f"the tensor ends at this byte; its storage has {nbytes} bytes")
