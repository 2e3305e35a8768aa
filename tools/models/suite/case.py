"""Defines a model of the suite: a small module of a real architecture, with inputs of any batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class SuiteCase:
    """A model. `inputs(batch)` are the module's keyword arguments; `breaks` says why Dynamo breaks its graph, if so."""

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[int], Mapping[str, Tensor]]
    breaks: str = ""
