"""Describes how the arguments and results of an exported program are arranged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cuesta.torch_private import pytree


@dataclass(frozen=True)
class Input:
    """One argument of the graph: a weight by name, or one of the call's flat arguments by number. A constant is an
    argument that is no tensor; the export fixed it at `value`."""

    kind: str  # "weight", "tensor" or "constant"
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

    def as_dict(self) -> dict[str, Any]:
        """Plain data. Raises NotImplementedError for a container that pytree cannot write."""
        specs = {"in_spec": pytree.treespec_dumps(self.in_spec), "out_spec": pytree.treespec_dumps(self.out_spec)}
        ranges = {name: list(ends) for name, ends in self.ranges.items()}
        return {"inputs": [asdict(i) for i in self.inputs], "ranges": ranges, **specs}

    @staticmethod
    def of(data: Mapping[str, Any], in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec) -> Signature:
        """The signature of a result of `as_dict`, whose specs are read already."""
        ranges = {name: (least, greatest) for name, (least, greatest) in data["ranges"].items()}
        return Signature([Input(**i) for i in data["inputs"]], in_spec, out_spec, ranges)
