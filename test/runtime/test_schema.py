"""Metadata that somebody changed are refused, by the name of the field; `test/fuzz` changes them at random."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch

from cuesta.errors import ArtefactError
from cuesta.runtime.artefact import Artefact, framed, unframed
from cuesta.runtime.executable import Executable, _source
from cuesta.runtime.schema.calls import check_arguments
from cuesta.runtime.schema.checks import Wrong, refusing
from cuesta.runtime.schema.metadata import check_metadata, read_artefact
from cuesta.runtime.schema.numbers import check_text
from cuesta.runtime.sized import with_sizes
from cuesta.tools.fuzz.files.specimens import specimen


def bytes_of(name: str) -> bytes:
    """The artefact of a specimen."""
    parts = specimen(name).parts()
    return framed(parts["json"], parts["objects"], b"")


def artefact_of(name: str) -> Artefact:
    return Artefact.from_bytes(bytes_of(name))


def changed(metadata: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a path such as "program.results[0].sizes"."""
    made = copy.deepcopy(metadata)
    *outer, last = [int(p) if p.isdigit() else p for p in path.replace("]", "").replace("[", ".").split(".")]
    holder: Any = made
    for key in outer:
        holder = holder[key]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return made


#: Field, value, and what the message says after the field; "" where the field itself is unknown or missing.
CRAFTED: list[tuple[str, Any, str]] = [
    ("program.results[0].sizes", [9, 8], "not those of its whole memory"),
    ("program.results[1].sizes", [8, 8], "its memory has 256"),
    ("program.results[1].sizes[1]", -4, "-4; a size is 0 or more"),
    ("program.results[1].sizes[1]", True, "True; a size is 0 or more"),
    ("program.results[1].sizes[1]", 8.0, "8.0; a size is 0 or more"),
    ("program.results[1].sizes[1]", "s0", "'s0'; it names s0; known are arena"),
    ("program.results[1].sizes[1]", "(1", "is not a size"),
    ("program.results[1].sizes[1]", "1+" * 4000 + "1", "a size nested too deep"),
    ("program.results[1].sizes[1]", "(a+b)*" * 60 + "1", "more terms than any program's"),
    ("program.results[1].strides", [8], "one for each of 2 sizes is valid"),
    ("program.results[1].strides[0]", -8, "-8; a stride is 0 or more"),
    ("program.results[1].offset", -1, "-1; an offset is 0 or more"),
    ("program.results[1].offset", 17, "its memory has 256"),
    ("program.results[1].offset", 1 << 80, "an offset is 0 or more"),
    ("program.results[1].index", 7, "7; the program has 1 bases"),
    ("program.results[1].kind", "storage", "'storage'; valid are argument, base"),
    ("program.results[1].dtype", "f128", "'f128'; valid are i128"),
    ("program.results[1].dtype", "f64", "its memory has 256"),
    ("program.bases[0].owner", "nobody", "'nobody'; valid are caller, torch, aten"),
    ("program.bases[0].owner", ["torch"], "a list of 1; valid are caller, torch, aten"),
    ("program.bases[0].sizes", [1 << 61, 1 << 61], "bytes of a tensor are counted in 63 bits"),
    ("program.kept", 1 << 40, "0 to 1048576 are valid"),
    ("program.released", [1], "1; the program has 1 arguments"),
    ("program.released", [0], "0; the program releases"),
    ("program.mutates", [-1], "-1; an index is 0 or more"),
    ("program.mutates", [0, 0], "each is valid once"),
    ("program.lent", [4], "4; the program has 1 arguments"),
    ("program.lent", ["0) or print(1"], "an index is 0 or more"),
    ("program.arena", "__import__('os').abort()", "is not a size"),
    ("program.arena", None, "None; a size is 0 or more"),
    ("program.kernels", [{"name": "x"}], "this key is missing"),
    ("program.late", [0], "an empty list is valid"),
    ("program.words", ["s0"], "it names s0"),
    ("program.words", {}, "an object of 0; a list is valid"),
    ("program.grids", [[[], []], 3], "a list of 2 is valid"),
    ("program.buffers", [[64, 2, 1]], "a buffer's last step is not before its first"),
    ("program.steps", [{"kind": "jump"}], "'jump'; valid are check, allocation, launch, call"),
    ("program.steps", [{"kind": "check", "message": "\ud800", "raises": "IndexError"}], "whole characters"),
    ("program.target", "cpu:9", "unknown target"),
    ("program.device", "cuda:0", "a program for cpu runs on cpu"),
    ("program.elsewhere", ["nowhere"], "torch has no device of that name"),
    ("program.assumed", {"s9": True}, "it names s9"),
    ("program.memory", ..., "this key is missing"),
    ("program.extra", 1, "an unknown key"),
    ("convention.tensor_arguments", [], "with the constants the program takes 1 tensors"),
    ("convention.outputs[0].index", 99, "99; the program has 5 results"),
    ("convention.outputs[0].kind", "file", "valid are tensor, argument, value, size"),
    ("convention.sources", [{"name": "s0", "argument": 0, "dim": 2, "hint": 8}], "2; the argument has 2 dims"),
    ("program.arguments[0].device", "nowhere", "nowhere"),
    ("report.kernels[0].ops", "exp", "a list is valid"),
    ("report.lines", [], "an unknown key"),
    ("report", ..., "this key is missing"),
    ("extra", {}, "an unknown key"),
]


@pytest.mark.parametrize(("path", "value", "told"), CRAFTED, ids=[f"{c[0]} {c[1]!r}"[:60] for c in CRAFTED])
def test_what_is_wrong_is_named_by_its_field(path: str, value: Any, told: str) -> None:
    artefact = artefact_of("views")
    with pytest.raises(ArtefactError) as refusal:
        check_metadata(changed(artefact.metadata, path, value), artefact.kernels)
    message = str(refusal.value)
    assert told in message
    assert message.startswith(path.split(".")[0])


def test_a_message_has_the_whole_path() -> None:
    artefact = artefact_of("views")
    with pytest.raises(ArtefactError) as refusal:
        check_metadata(changed(artefact.metadata, "program.results[1].sizes[1]", -4), artefact.kernels)
    assert str(refusal.value) == "program.results[1].sizes[1]: -4; a size is 0 or more"


@pytest.mark.parametrize("name", ["plain", "views", "written", "routes", "sized"])
def test_what_a_compile_made_is_valid(name: str) -> None:
    assert read_artefact(bytes_of(name)).to_bytes() == bytes_of(name)


def remade(name: str, change: dict[str, Any]) -> bytes:
    """The artefact with other metadata of its program, and its checksum redone."""
    text, objects, kernels = unframed(bytes_of(name))
    document = json.loads(text)
    document["metadata"]["program"] |= change
    return framed(json.dumps(document).encode(), objects, kernels)


@pytest.mark.parametrize("change", [{"arena": 64}, {"kept": 0}, {"keeps_arena": False}], ids=str)
def test_valid_metadata_of_other_code_are_refused(change: dict[str, Any]) -> None:
    artefact = read_artefact(remade("plain", change))  # valid by themselves
    with pytest.raises(ArtefactError, match="the machine code was compiled for another"):
        Executable(artefact)


def test_code_that_states_nothing_is_refused() -> None:
    artefact = artefact_of("plain")
    objects = artefact.objects.replace(b"cuesta_interface", b"cuesta_interfaze")
    with pytest.raises(ArtefactError, match="the machine code defines no cuesta_interface"):
        Executable(Artefact(objects, artefact.entry, artefact.metadata))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arena", "0) or print('ran') or (0"),
        ("lent", ["0) or print('ran') or (0"]),
        ("results[1].offset", "0) or print('ran') or (0"),
        ("results[1].index", "0] or print('ran') or [0"),
        ("results[1].sizes", ["6", 8]),
        ("bases[0].strides", [8, True]),
    ],
)
def test_no_text_of_the_metadata_becomes_a_program(field: str, value: Any) -> None:
    """Even where nothing has checked the metadata."""
    program = changed(artefact_of("views").metadata["program"], field, value)
    with pytest.raises(TypeError):
        _source(program)


def test_deep_json_is_refused() -> None:
    deep = b'{"entry": "cuesta_main", "kernels": [], "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(ArtefactError, match="RecursionError"):
        read_artefact(framed(deep, b"", b""))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('["%2", 1]', "call.args[0]: '%2'; %0 to %1 are the operands"),
        ('["%\u00b2", 1]', "call.args[0]"),
        ('["%0", {"dtype": "os"}]', "call.args[1].dtype: 'os'; torch has no dtype of that name"),
        ('["%0", {"memory_format": "nn"}]', "torch has no memory_format of that name"),
        ('["%0", {"device": "moon"}]', "torch has no device of that name"),
        ('["%0", {"eval": "1"}]', "call.args[1]: 'eval'; known are dtype"),
        ('["%0", {"dtype": "int8", "str": "x"}]', "an object of one key is valid"),
        ('["%0", "%1", 3, 4]', "call.args: a list of 4; aten::add takes 2 positional arguments"),
        ('["%0", "%1", {"kwargs": {"beta": 2}}]', "aten::add has no argument of that name"),
        ('["%0", NaN]', "a JSON list of arguments is valid"),
        ("[" * 100_000, "a JSON list of arguments is valid"),
        ("{}", "a JSON list of arguments is valid"),
    ],
)
def test_arguments_of_a_call(text: str, told: str) -> None:
    with pytest.raises(ArtefactError) as refusal, refusing("call.args"):
        check_arguments(text, 2, torch.ops.aten.add.Tensor._schema)
    assert told in str(refusal.value)


@pytest.mark.parametrize("name", ["import_module.this.x", "load_library.a.b", "aten.add.__class__", "aten.no.op", "x"])
def test_a_call_names_an_op(name: str) -> None:
    artefact = artefact_of("routes")
    with pytest.raises(ArtefactError, match=r"program.calls\[0\].overload: .*; torch has no such overload"):
        check_metadata(changed(artefact.metadata, "program.calls[0].overload", name), artefact.kernels)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("results[1].offset", "6*s{0}*s{1}", "ends at this byte"),
        ("results[1].sizes[0]", "s{0} - 20", "a size is 0 or more"),
        ("results[1].offset", "0 - s{0}", "an offset is 0 or more"),
        ("results[1].sizes[0]", "s{0} // (s{0} - 8)", "divides by 0"),
    ],
)
def test_places_are_checked_anew_for_each_set_of_sizes(path: str, text: str, told: str) -> None:
    """A result that a file puts outside its memory for some sizes is found when these are met."""
    artefact = artefact_of("sized")
    names = [source["name"] for source in artefact.metadata["convention"]["sources"]]
    spelled = text.replace("s{0}", names[0]).replace("s{1}", names[1])
    metadata = changed(artefact.metadata, f"program.{path}", spelled)
    check_metadata(metadata, artefact.kernels)
    values = dict(zip(names, (8, 12, 6), strict=True))
    with pytest.raises(ArtefactError, match=told):
        with_sizes(metadata["program"], values)
    with_sizes(artefact.metadata["program"], values)


@pytest.mark.parametrize("joined", ["*", " * "])
def test_a_text_of_millions_of_terms_is_no_size(joined: str) -> None:
    with pytest.raises(Wrong, match="more terms than any program's"):
        check_text(joined.join(f"(a{i}+b{i})" for i in range(30)), "a size is valid", 0)


def test_parts_are_those_of_the_file() -> None:
    assert set(specimen("views").parts()) == {"json", "objects"}
