"""The stages of the compiler, in order, each a pipeline that can be run, dumped and replayed alone.

A stage is named for the level that its output is on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One step of the way down. `passes` are run in order on the module."""

    name: str
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """The stage as pipeline text."""
        return f"builtin.module({','.join(self.passes)})"


_GRAPH = (
    # 1. Views first: what copies and views of views hide, no later pattern has to look through.
    "fold-views",
    # 2. Equal subexpressions (masks, casts of one weight) are computed once.
    "cse",
    # 3. Library calls before decomposition, while a contraction still has the strides it was traced with.
    "call-libraries",
    # 4. Whole ops apart, so that fusion sees reductions and pointwise ops only.
    "decompose",
    # 5. Reshapes out from between pointwise ops; then once more what that left behind.
    "hoist-reshapes",
    "fold-views",
    "cse",
)

_LINALG = ("cuesta-to-linalg",)

_KERNELS = ("form-kernels",)

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("graph", _GRAPH),
        Stage("linalg", _LINALG),
        Stage("kernels", _KERNELS),
    )
}
