"""Builds what a call of an ATen op becomes: import rules get a `Call`, and the call's arguments."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.frontend.rules import sizes_of
from cuesta.sizes import Number


class Call(GraphBuilder):
    """A builder that knows the call for which it builds. `meta` is the traced result: a fake tensor, or several."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.meta: Any = node.meta.get("val")

    @property
    def name(self) -> str:
        """The name of the op, without its namespace and its overload."""
        return str(self.node.target).split(".")[1]

    @property
    def spelling(self) -> str:
        """The dialect's name of the dtype of the only result."""
        return types.SPELLING[self.meta.dtype]

    @property
    def sizes(self) -> tuple[Number, ...]:
        """The sizes of the only result."""
        return sizes_of(self.meta)

    @property
    def on_cpu(self) -> bool:
        """Whether the only result is on the CPU."""
        return bool(self.meta.device.type == "cpu")

    @property
    def types(self) -> list[ir.Type]:
        """The dialect's types of the results."""
        metas = self.meta if isinstance(self.meta, (list, tuple)) else [self.meta]
        return [types.tensor(tuple(m.shape), types.SPELLING[m.dtype]) for m in metas]

    @property
    def read(self) -> set[int]:
        """The positions of those of several results that other nodes read."""
        return {user.args[1] for user in self.node.users}  # type: ignore[misc]

    def given(self, position: int) -> Any:
        """The traced value of the argument at `position`, a node's: a fake tensor."""
        return self.node.args[position].meta["val"]  # type: ignore[union-attr]
