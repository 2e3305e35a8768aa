"""Handles graphs with `with torch.cuda.stream(s):` inside: Dynamo notes each node's stream and keeps waits as ops.

    s.wait_stream(current)                     streams.wait_stream
    with torch.cuda.stream(s):         →       %y = sin(%x) {stream = 1}      a piece of its own, which runs on s
        y = x.sin()

A stream is a number, from which torch looks up the user's object at run time; None is the current stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.python_steps import is_view
from cuesta.torch_private.ops import OpOverload

Run = Callable[[list[Any]], list[Any]]


def stream_of(node: Node) -> int | None:
    """The stream on which a node's result is computed; None for the current stream."""
    return (node.meta.get("custom") or {}).get("stream")


def uses_streams(gm: GraphModule) -> bool:
    """Whether a graph computes on a stream other than the current one, or waits for a stream."""
    return any((launches(node) and stream_of(node) is not None) or _is_wait(node) for node in gm.graph.nodes)


def without_stream(meta: dict[str, Any]) -> dict[str, Any]:
    """A node's meta without its stream, for a piece of a graph that runs on one stream as a whole."""
    custom = {name: value for name, value in (meta.get("custom") or {}).items() if name != "stream"}
    return {**meta, "custom": custom}


def launches(node: Node) -> bool:
    """Whether it matters on which stream a node's result is computed."""
    makes_tensors = isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))
    return node.op == "call_function" and makes_tensors and not is_view(node)


def unwrap_waits(gm: GraphModule) -> None:
    """Replaces each `control_deps` by the wait inside. `control_deps` passes tensors through a wait to order their uses
    after it. Pieces of a graph with streams keep the graph's order anyway, and a program should receive each tensor
    only once."""
    wrapped = [n for n in gm.graph.nodes if getattr(n.target, "__name__", "") == "control_deps"]
    for node in wrapped:
        node.update_arg(0, ())  # what is to be computed before; since torch 2.15 other control_deps are among it
    for node in wrapped:
        _, graph, *handed = node.args
        (wait,) = (n for n in getattr(gm, graph.target).graph.nodes if n.op == "call_function")
        with gm.graph.inserting_before(node):
            gm.graph.call_function(wait.target, wait.args, wait.kwargs)
        for part in list(node.users):  # item 0 is the wait's result, which is None
            part.replace_all_uses_with(handed[part.args[1] - 1])
            gm.graph.erase_node(part)
        gm.graph.erase_node(node)
        gm.graph.erase_node(graph)
    if wrapped:
        gm.recompile()


def run_on(stream: int | None, run: Run, foreign: Sequence[int]) -> Run:
    """`run` with `stream` as the current stream. The values at the positions `foreign` were made on other streams:
    their memory must not be reused before `stream` is done with it."""

    def call(values: list[Any]) -> list[Any]:
        for i in foreign:
            if isinstance(values[i], torch.Tensor) and values[i].device.type != "cpu":
                values[i].record_stream(torch.accelerator.current_stream(values[i].device))
        return run(values)

    def call_on_stream(values: list[Any]) -> list[Any]:
        from cuesta.torch_private.dynamo import external_stream

        assert stream is not None
        with external_stream(stream):
            return call(values)

    return call if stream is None else call_on_stream


def _is_wait(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.namespace == "streams"
