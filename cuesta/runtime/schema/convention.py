"""Checks the "convention" of an artefact's metadata: how a call's arguments map to the program's tensors and results.

frontend/convention.py has the same data as dataclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from cuesta.runtime.schema.checks import Wrong, check_of, whole
from cuesta.runtime.schema.numbers import check_text, known_symbols
from cuesta.runtime.schema.program import Program

_Index: TypeAlias = Annotated[int, whole("an index is 0 or more")]


class Output(TypedDict):
    """An output of the graph. Its kind decides what `index` and `value` mean."""

    kind: Literal["tensor", "argument", "value", "size"]
    index: _Index
    value: str | float | bool | None


class Source(TypedDict):
    """Where a call finds a symbol's value: argument `argument` itself, or its size along `dim`."""

    name: str
    argument: _Index
    dim: _Index | None
    hint: int


class Convention(TypedDict):
    """The convention of a program. Its indices count a call's arguments or the program's results."""

    outputs: list[Output]
    tensor_arguments: list[_Index]
    constants: list[str]
    sources: list[Source]


_check_keys = check_of(Convention)


def check_convention(convention: Any) -> None:
    """Raises Wrong unless `convention` is valid by itself."""
    _check_keys(convention)
    names = [source["name"] for source in convention["sources"]]
    for number, name in enumerate(names):
        if not name.isidentifier() or name in names[:number]:
            raise Wrong(name, "a name that no other symbol has is valid").within(f".sources[{number}].name")
    with known_symbols(frozenset(names)):
        for number, output in enumerate(convention["outputs"]):
            if output["kind"] == "size":
                try:
                    check_text(output["value"], "a size is a text here", least=-(1 << 63))
                except Wrong as wrong:
                    raise wrong.within(f".outputs[{number}].value") from None


def symbols_of(convention: Convention) -> frozenset[str]:
    """The symbols whose values a call provides."""
    return frozenset(source["name"] for source in convention["sources"])


def check_fit(convention: Convention, program: Program) -> None:
    """Raises Wrong unless a convention fits this program."""
    tensors, arguments = len(convention["tensor_arguments"]), len(program["arguments"])
    if tensors + len(convention["constants"]) != arguments:
        raise Wrong(tensors, f"with the constants the program takes {arguments} tensors").within(".tensor_arguments")
    if len(set(convention["tensor_arguments"])) < tensors:
        raise Wrong(convention["tensor_arguments"], "each is valid once").within(".tensor_arguments")
    results = len(program["results"])
    for number, output in enumerate(convention["outputs"]):
        if output["kind"] == "tensor" and output["index"] >= results:
            raise Wrong(output["index"], f"the program has {results} results").within(f".outputs[{number}].index")
    _check_sources(convention, program)


def _check_sources(convention: Convention, program: Program) -> None:
    """Raises Wrong unless each symbol that is a tensor's size names a dim that the tensor has."""
    tensors = dict(zip(convention["tensor_arguments"], program["arguments"], strict=False))
    for number, source in enumerate(convention["sources"]):
        tensor, dim = tensors.get(source["argument"]), source["dim"]
        if tensor is not None and (dim is None or dim >= len(tensor["sizes"])):
            raise Wrong(dim, f"the argument has {len(tensor['sizes'])} dims").within(f".sources[{number}].dim")


def check_arguments(convention: Convention, ranks: Sequence[int | None]) -> None:
    """Raises Wrong unless a convention fits a call with arguments of these ranks; None for an argument that is no
    tensor."""
    for i, index in enumerate(convention["tensor_arguments"]):
        if index >= len(ranks) or ranks[index] is None:
            raise Wrong(index, _arguments(ranks, "a tensor")).within(f".tensor_arguments[{i}]")
    for i, output in enumerate(convention["outputs"]):
        if output["kind"] == "argument" and output["index"] >= len(ranks):
            raise Wrong(output["index"], f"the call has {len(ranks)} arguments").within(f".outputs[{i}].index")
    for i, source in enumerate(convention["sources"]):
        index, dim = source["argument"], source["dim"]
        rank = ranks[index] if index < len(ranks) else None
        if index >= len(ranks) or (rank is None) != (dim is None):
            kind = "a number" if dim is None else "a tensor"
            raise Wrong(index, _arguments(ranks, kind)).within(f".sources[{i}].argument")
        if rank is not None and dim is not None and dim >= rank:
            raise Wrong(dim, f"the argument has {rank} dims").within(f".sources[{i}].dim")


def _arguments(ranks: Sequence[int | None], kind: str) -> str:
    return f"the number of {kind} among {len(ranks)} arguments is valid"
