"""Compiles a graph that no program with symbolic sizes can hold once for each set of sizes, when it is first called.

Dynamo's guards admit every size for which the graph is right. Each set of sizes that arrives is traced with its numbers
and compiled. The most recently called programs are kept. A dropped program frees its memory once no call of it is
running, and is compiled anew if its sizes come again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.driver.calling import Boxed, as_boxed
from cuesta.frontend.attention.specialised_masks import prove_masks
from cuesta.frontend.capture.aliased_outputs import keep_aliases
from cuesta.frontend.graph_key import attribute
from cuesta.reports.compile_report import SetsOfSizes
from cuesta.torch_private import pytree
from cuesta.torch_private.fake_tensors import FakeTensorMode
from cuesta.torch_private.fx import LazyGraphModule
from cuesta.torch_private.symbolic_shapes import ShapeEnv

#: Programs that a graph keeps. Each takes three mappings, of the 65,530 that Linux gives a process, and some hundred KB
#: to some MB. A server that cycles through more lengths than this should have its graph compiled with symbolic sizes.
KEPT_PROGRAMS = 32


def is_symbolic(gm: GraphModule) -> bool:
    """Whether any argument of the graph has a size or value that is not a number."""
    for node in gm.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        strided = isinstance(value, torch.Tensor) and value.layout == torch.strided
        if strided and any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride())):
            return True
    return False


def specialised(gm: GraphModule, sets: SetsOfSizes, compile_static: Callable[[GraphModule], Boxed]) -> Boxed:
    """A boxed callable that compiles `gm` for each new set of sizes; `sets` counts them."""
    programs = _Programs(sets)

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        # A local variable keeps the program alive while it runs, even if another thread drops it meanwhile.
        program = programs.get(key, lambda: compile_static(_with_numbers(gm, args)))
        return program(args)

    return call


class _Programs:
    """The most recently called programs of one graph, by sizes. Threads may ask at once."""

    def __init__(self, sets: SetsOfSizes) -> None:
        self._sets = sets
        self._kept: OrderedDict[tuple[Any, ...], Boxed] = OrderedDict()
        self._lock = threading.Lock()
        #: held while a program is compiled; calls of finished programs do not wait for it
        self._compiling = threading.Lock()

    def get(self, key: tuple[Any, ...], compile: Callable[[], Boxed]) -> Boxed:
        program = self._find(key)
        if program is not None:
            return program
        with self._compiling:
            program = self._find(key)
            if program is None:
                program = compile()
                self._keep(key, program)
            return program

    def _find(self, key: tuple[Any, ...]) -> Boxed | None:
        with self._lock:
            program = self._kept.get(key)
            if program is not None:
                self._kept.move_to_end(key)
            return program

    def _keep(self, key: tuple[Any, ...], program: Boxed) -> None:
        dropped = None
        with self._lock:
            self._kept[key] = program
            if len(self._kept) > KEPT_PROGRAMS:
                _, dropped = self._kept.popitem(last=False)
            self._sets.compiled += 1
            self._sets.kept = len(self._kept)
        del dropped  # outside the lock: freeing may take a while


def _with_numbers(gm: GraphModule, args: list[Any]) -> GraphModule:
    """The graph retraced for arguments of these sizes.

    It runs node by node on fake tensors. Tracing it would patch nn.Module's methods meanwhile, which other threads may
    be calling.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    mode.cache_enabled = False  # the cache is shared by the whole process, and would grow with every set of sizes
    graph = torch.fx.Graph()
    values: dict[Node, Any] = {}
    #: node → its copy, or its value if that is not a tensor
    copies: dict[Node, Any] = {}
    given = iter(args)
    with mode, torch.no_grad():
        for node in gm.graph.nodes:
            if node.op == "output":
                keep_aliases(graph.output(torch.fx.map_arg(node.args[0], copies.__getitem__)), node)
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
    # Its Python code is generated only if it is called, because FX keeps every generated source for ever.
    plain = LazyGraphModule(gm, graph)
    prove_masks(plain)
    return plain
