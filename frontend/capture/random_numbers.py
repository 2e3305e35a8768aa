"""Corrects the dtype of numbers of Python's `random`, which Dynamo draws before the call and passes as tensors.

    x * random.uniform(0, 1)      →      graph(x, tensor(0.48, dtype=float64)):  x * number.to(float32)

Dynamo traces each as a tensor of the default dtype but passes an f64 tensor, whose bits a program would misread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuesta.torch_private.dynamo import RandomValueSource


def take_random_numbers_as_passed(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> list[Any]:
    """Makes Dynamo's graph convert such numbers from f64 to the traced dtype; returns the inputs to trace it with."""
    inputs = [*example_inputs]
    for i, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        given = node.meta.get("grapharg")
        if given is None or not isinstance(given.source, RandomValueSource):
            continue
        if inputs[i].is_floating_point() and inputs[i].dtype != torch.float64:
            _convert(gm, node, inputs[i].dtype)
            inputs[i] = inputs[i].double()
    return inputs


def _convert(gm: torch.fx.GraphModule, number: torch.fx.Node, dtype: torch.dtype) -> None:
    with gm.graph.inserting_before(next(n for n in gm.graph.nodes if n.op != "placeholder")):
        converted = gm.graph.call_method("to", (number, dtype))
    converted.meta = {k: v for k, v in number.meta.items() if k == "example_value"}
    number.replace_all_uses_with(converted, delete_user_cb=lambda user: user is not converted)
    gm.recompile()
