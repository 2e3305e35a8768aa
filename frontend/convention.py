"""The calling convention of a program: which of a call's arguments are its tensors, and what the call returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cuesta.errors import Unsupported
from cuesta.frontend.symbols import Source
from cuesta.sizes import at, parse


@dataclass(frozen=True)
class Output:
    """One output of a graph: `kind` is "tensor" (the program's result `index`), "argument" (the call's
    argument `index` itself), "value" (a number or None, known when compiling) or "size" (a number that the call's
    sizes give, spelled in `value`)."""

    kind: str
    index: int = 0
    value: Any = None


@dataclass(frozen=True)
class Convention:
    """What a program's caller must know; plain data, kept with the artefact."""

    outputs: list[Output]
    #: which call arguments are the program's first tensors, in order
    tensor_arguments: list[int]
    #: attributes of the graph module that follow them
    constants: list[str]
    #: where the symbols in sizes come from
    sources: list[Source] = field(default_factory=list)

    def with_sizes(self, values: Mapping[str, int]) -> Convention:
        """That of the program for these values of the symbols."""
        outputs = [Output("value", value=at(parse(o.value), values)) if o.kind == "size" else o for o in self.outputs]
        return replace(self, outputs=outputs, sources=[])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Convention:
        outputs = [Output(**o) for o in data["outputs"]]
        sources = [Source(**s) for s in data["sources"]]
        return Convention(outputs, data["tensor_arguments"], data["constants"], sources)


def check_outputs(outputs: list[Output]) -> None:
    """Raises Unsupported where an output is no plain value: it could not be kept on disk."""
    for output in outputs:
        if output.kind == "value" and not isinstance(output.value, (type(None), bool, int, float, str)):
            raise Unsupported(f"the graph returns a {type(output.value).__name__}")
