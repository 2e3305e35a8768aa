"""Graphs whose program cannot have symbolic sizes: one for each set of sizes that is called, made when it is.

Dynamo's guards admit every size that the graph is right for; each combination that arrives is traced
with its numbers and compiled once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from cuesta.frontend.calling import Boxed
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.specialised_masks import prove_masks


def is_symbolic(gm: torch.fx.GraphModule) -> bool:
    """Whether any argument of the graph has a size or value that is not a number."""
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        strided = isinstance(value, torch.Tensor) and value.layout == torch.strided
        if strided and any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride())):
            return True
    return False


def specialised(gm: torch.fx.GraphModule, compile_static: Callable[[torch.fx.GraphModule], Boxed]) -> Boxed:
    """A boxed callable that compiles `gm` for each new combination of sizes."""
    programs: dict[tuple[Any, ...], Boxed] = {}
    lock = threading.Lock()

    def call(args: list[Any]) -> list[Any]:
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        program = programs.get(key)
        if program is None:
            with lock:
                program = programs.get(key)
                if program is None:
                    program = programs[key] = compile_static(_with_numbers(gm, args))
        return program(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _with_numbers(gm: torch.fx.GraphModule, args: list[Any]) -> torch.fx.GraphModule:
    """The graph for arguments of these sizes.

    It is run node by node with fake tensors, as tracing it would change nn.Module's methods for a while, which other
    threads may be calling.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    #: node → its copy, or what it is where that is no tensor
    copies: dict[torch.fx.Node, Any] = {}
    given = iter(args)
    with mode, torch.no_grad():
        for node in gm.graph.nodes:
            if node.op == "output":
                graph.output(torch.fx.map_arg(node.args[0], copies.__getitem__))
                break
            if node.op == "placeholder":
                value = next(given)
            elif node.op == "get_attr":
                value = attribute(gm, str(node.target))
            else:
                operands = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                value = node.target(*operands[0], **operands[1])
            is_given = node.op != "call_function" and isinstance(value, torch.Tensor)
            values[node] = mode.from_tensor(value, static_shapes=True) if is_given else value
            is_known = not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
            if not is_known or node.op == "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
                copies[node].meta["val"] = values[node]
            if is_known:
                copies[node] = value
    plain = torch.fx.GraphModule(gm, graph)
    prove_masks(plain)
    return plain
