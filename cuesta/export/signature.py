"""Describes how the arguments and results of an exported program are arranged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from cuesta.runtime.schema.checks import whole
from cuesta.torch_private import pytree

Count: TypeAlias = Annotated[int, whole("a number of 0 or more is valid")]
Kind: TypeAlias = Literal["weight", "tensor", "constant"]


class StoredInput(TypedDict):
    """An `Input` as plain data."""

    kind: Kind
    name: str
    number: Count
    value: str | float | bool | None


class StoredSignature(TypedDict):
    """A `Signature` as plain data."""

    inputs: list[StoredInput]
    ranges: dict[str, tuple[int, int | None]]
    in_spec: str
    out_spec: str


@dataclass(frozen=True)
class Input:
    """One argument of the graph: a weight by name, or one of the call's flat arguments by number. A constant is an
    argument that is no tensor; the export fixed it at `value`."""

    kind: Kind
    name: str
    number: int = 0
    value: Any = None


@dataclass(frozen=True)
class Signature:
    """How a call's arguments and results are arranged."""

    inputs: list[Input]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    #: symbol in sizes → the least and the greatest value that the export admits; None for no upper bound
    ranges: dict[str, tuple[int, int | None]]

    def as_dict(self) -> StoredSignature:
        """Plain data. Raises NotImplementedError for a container that pytree cannot write."""
        return {
            "inputs": [{"kind": i.kind, "name": i.name, "number": i.number, "value": i.value} for i in self.inputs],
            "ranges": self.ranges,
            "in_spec": pytree.treespec_dumps(self.in_spec),
            "out_spec": pytree.treespec_dumps(self.out_spec),
        }

    @staticmethod
    def of(data: StoredSignature, in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec) -> Signature:
        """The signature of a result of `as_dict`, whose specs are read already."""
        ranges = {name: (least, greatest) for name, (least, greatest) in data["ranges"].items()}
        return Signature([Input(**i) for i in data["inputs"]], in_spec, out_spec, ranges)
