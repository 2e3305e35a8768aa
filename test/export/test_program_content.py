"""Files of exported programs that somebody changed are refused, and import and grow nothing."""

from __future__ import annotations

import collections
import enum
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import cuesta
from cuesta.errors import ArtefactError
from cuesta.export.treespecs import read_treespec
from cuesta.tools.fuzz.files.specimens import specimen


class Colour(enum.Enum):
    RED = 1


def rewritten(tmp_path: Path, changes: dict[str, Any]) -> Path:
    """The file of a model, in which parts are others: bytes, or for program.json a function of the document."""
    source, path = tmp_path / "source.cuesta", tmp_path / "changed.cuesta"
    source.write_bytes(specimen("model").data)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name in changes and name == "program.json":
                document = json.loads(data)
                changes[name](document)
                data = json.dumps(document).encode()
            elif name in changes:
                data = changes[name]
            if data is not None:
                new.writestr(name, data)
    return path


def _set(*path: Any) -> Any:
    """Sets the field at path[:-1] to path[-1]."""

    def change(document: Any) -> None:
        *outer, last, value = path
        for key in outer:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set("weights", "embed.weight", "sizes", [11, 8]), "its storage has 320"),
        (_set("weights", "embed.weight", "offset", 1), "its storage has 320"),
        (_set("weights", "embed.weight", "strides", [8]), ".strides: a list of 1; one for each of 2 sizes"),
        (_set("weights", "embed.weight", "strides", [8, -1]), ".strides[1]: -1; a number of 0 or more"),
        (_set("weights", "embed.weight", "storage", 99), "storage/99: the file has no such part"),
        (_set("weights", "embed.weight", "device", "meta"), ".device: 'meta'; valid are cpu"),
        (_set("weights", "embed.weight", "dtype", "float32"), ".dtype: 'float32'; valid are"),
        (_set("weights", []), "program.json.weights: a list of 0; an object is valid"),
        (_set("signature", "inputs", 0, "kind", "wight"), ".kind: 'wight'; valid are weight, tensor, constant"),
        (_set("signature", "inputs", []), "program.json signature.inputs"),
        (_set("signature", "ranges", {"s0": [1]}), ".ranges['s0']: a list of 1; a list of 2 is valid"),
        (_set("signature", "in_spec", "[1, {}]"), "signature.in_spec.type: None; this key is missing"),
        (_set("signature", "in_spec", "[" * 100_000), "signature.in_spec: not JSON"),
        (_set("signature", "out_spec", pytree.treespec_dumps(pytree.tree_structure([1]))), "the program has 5 outputs"),
        (_set("signature", "in_spec", pytree.treespec_dumps(pytree.tree_structure([1]))), "a tuple of arguments and"),
        (_set("instructions", 5), "program.json.instructions: 5; a list is valid"),
        (_set("more", 5), "program.json: 'more'; an unknown key"),
    ],
)
def test_what_is_wrong_in_program_json_is_named(change: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError) as refusal:
        cuesta.load(rewritten(tmp_path, {"program.json": change}))
    assert told in str(refusal.value)


def test_a_weight_cut_short_is_refused(tmp_path: Path) -> None:
    """It used to grow with what was in memory behind it."""
    with zipfile.ZipFile(rewritten(tmp_path, {})) as archive:
        data = archive.read("storage/0")
    with pytest.raises(ArtefactError, match=r"weights\['.*'\]: .* its storage has"):
        cuesta.load(rewritten(tmp_path, {"storage/0": data[:-4]}))
    with pytest.raises(ArtefactError, match="storage/0: the file has no such part"):
        cuesta.load(rewritten(tmp_path, {"storage/0": None}))


@pytest.mark.parametrize("document", [b"[]", b"{}", b"1", b"[" * 100_000, b'{"kind": NaN}', b"\xff"])
def test_another_document_is_refused(document: bytes, tmp_path: Path) -> None:
    source = rewritten(tmp_path, {})
    path = tmp_path / "other.cuesta"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        new.writestr("program.json", document)
        new.writestr("code", old.read("code"))
    with pytest.raises(ArtefactError):
        cuesta.load(path)


def test_a_part_that_is_compressed_is_refused(tmp_path: Path) -> None:
    """A few bytes may stand for terabytes."""
    path = rewritten(tmp_path, {})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("storage/9", bytes(1 << 20))
    with pytest.raises(ArtefactError, match="its members are compressed"):
        cuesta.load(path)


def test_a_list_of_parts_that_leads_out_of_the_file(tmp_path: Path) -> None:
    path = rewritten(tmp_path, {})
    path.write_bytes(path.read_bytes()[46:])
    with pytest.raises(ArtefactError, match="is damaged"):
        cuesta.load(path)


def _tree(kind: str, context: Any, children: int = 0) -> str:
    leaf = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf] * children}])


def _enumerated(fqn: str, name: str = "RED") -> str:
    return json.dumps([{"__enum__": True, "fqn": fqn, "name": name}])


def _factory(module: str, name: str) -> dict[str, Any]:
    return {"default_factory_module": module, "default_factory_name": name, "dict_context": []}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_tree("builtins.dict", _enumerated("antigravity:x"), 1), "no such enumeration"),
        (_tree("builtins.dict", _enumerated("os:environ"), 1), "no such enumeration"),
        (_tree("builtins.dict", _enumerated(f"{__name__}:Colour", "BLUE"), 1), "no such member"),
        (_tree("builtins.tuple", _enumerated("antigravity:x"), 1), "no such enumeration"),
        (_tree("builtins.tuple", "3", 1), "null is valid"),
        (_tree("builtins.dict", '["a"]', 2), "a list of 2 keys is valid"),
        (_tree("builtins.dict", "[[1]]", 1), "a text or a number is a key"),
        (_tree("collections.defaultdict", _factory("antigravity", "x")), "one of Python's own types"),
        (_tree("collections.defaultdict", _factory("os", "abort")), "one of Python's own types"),
        (_tree("collections.deque", "-1", 0), "null or a length is valid"),
        (_tree("collections.namedtuple", "builtins.dict", 1), "a named tuple of 1 fields is valid"),
        (_tree("collections.namedtuple", "antigravity.X", 1), "import the library that defines it"),
        (_tree("antigravity.X", "null"), "import the library that defines it"),
        ("[1]", "a list of a format's number and a tree is valid"),
    ],
)
def test_an_arrangement_imports_nothing(text: str, told: str) -> None:
    with pytest.raises(ArtefactError) as refusal:
        read_treespec(text, "spec")
    assert told in str(refusal.value)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "value",
    [
        (1, [2, {"a": 3}]),
        {Colour.RED: 1},
        collections.defaultdict(list, {"a": 1}),
        collections.OrderedDict(b=1, a=2),
        collections.deque([1, 2], maxlen=3),
        torch.Size([1, 2]),
    ],
    ids=str,
)
def test_what_torch_writes_is_read(value: Any) -> None:
    spec = pytree.tree_structure(value)
    assert read_treespec(pytree.treespec_dumps(spec), "spec") == spec
