"""Describes a program's calling convention: which of a call's arguments are its tensors, and what the call returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from cuesta.errors import Unsupported
from cuesta.frontend.symbols import Source
from cuesta.runtime.schema import convention as schema
from cuesta.sizes import at, parse


@dataclass(frozen=True)
class Output:
    """One output of a graph. `kind` is "tensor" (the program's result `index`), "argument" (the call's argument `index`
    itself), "value" (a number or None, known at compile time) or "size" (a number computed from the call's sizes, as
    spelled in `value`)."""

    kind: str
    index: int = 0
    value: Any = None


@dataclass(frozen=True)
class Convention:
    """What a program's caller must know, as plain data that is kept with the artefact."""

    outputs: list[Output]
    #: positions of the call arguments that are the program's first tensors, in order
    tensor_arguments: list[int]
    #: attributes of the graph module that are the program's tensors after those
    constants: list[str]
    #: where the values of symbolic sizes are read
    sources: list[Source] = field(default_factory=list)

    def with_sizes(self, values: Mapping[str, int]) -> Convention:
        """The convention of the program that is specialised to these values of the symbols."""
        outputs = [Output("value", value=at(parse(o.value), values)) if o.kind == "size" else o for o in self.outputs]
        return replace(self, outputs=outputs, sources=[])

    def with_results(
        self, positions: Collection[int], count: int, without: Collection[int]
    ) -> tuple[Convention, list[int]]:
        """The convention of a run that itself returns the arguments at these positions of the outputs, behind the
        `count` results of its program. Also the numbers of the program's tensors that the run returns there. The caller
        still returns the tensors numbered in `without`, and arguments that the program does not take."""
        numbers = {argument: number for number, argument in enumerate(self.tensor_arguments) if number not in without}
        outputs, returned = list(self.outputs), dict[int, int]()
        for position in positions:
            output = outputs[position]
            if output.kind == "argument" and output.index in numbers:
                place = returned.setdefault(numbers[output.index], count + len(returned))
                outputs[position] = Output("tensor", place)
        return replace(self, outputs=outputs), list(returned)

    def as_dict(self) -> schema.Convention:
        return cast(schema.Convention, asdict(self))

    @staticmethod
    def from_dict(data: schema.Convention) -> Convention:
        outputs = [Output(**o) for o in data["outputs"]]
        sources = [Source(**s) for s in data["sources"]]
        return Convention(outputs, data["tensor_arguments"], data["constants"], sources)


def check_outputs(outputs: list[Output]) -> None:
    """Raises Unsupported where an output is no plain value, and so could not be kept on disk."""
    for output in outputs:
        if output.kind == "value" and not isinstance(output.value, (type(None), bool, int, float, str)):
            raise Unsupported(
                f"the graph returns a {type(output.value).__name__}; tensors, None, bool, int, float and str are valid"
            )
