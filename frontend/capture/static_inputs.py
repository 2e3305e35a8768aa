"""Finds the arguments of a graph that keep their memory from call to call: parameters and buffers."""

from __future__ import annotations

import re

import torch

from cuesta.torch_private.fake_tensors import forward_metadata

_PRIMAL = re.compile(r"primals_(\d+)$")


def static_arguments(gm: torch.fx.GraphModule, kind: str) -> list[int]:
    """Positions of the arguments that Dynamo and AOTAutograd know to keep their memory, for the graph that is being
    compiled. A backward graph's are those that are also arguments of the forward graph.
    """
    metadata = forward_metadata()
    known = set(metadata.static_input_indices) if metadata is not None else set()
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if kind != "backward":
        return sorted(i for i in known if i < len(placeholders))
    primals = [_PRIMAL.match(str(n.target)) for n in placeholders]
    return [i for i, primal in enumerate(primals) if primal and int(primal.group(1)) - 1 in known]
