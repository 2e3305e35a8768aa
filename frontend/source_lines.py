"""Which line of Python a step of a program comes from, where the program was compiled for another graph.

Equal graphs share one program in the cache, and their nodes may come from other lines. A kept program therefore says
of each step which node of the graph made it, counted from the first; each compile that finds it looks that node up in
its own graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_FRAME = 'File "'


def frame_of(node: torch.fx.Node) -> tuple[str, int] | None:
    """The file and the line of the innermost Python frame that a node was traced in."""
    _, found, frame = (node.meta.get("stack_trace") or "").rpartition(_FRAME)
    file, _, rest = frame.partition('", line ')
    line = rest.partition(",")[0]
    return (file, int(line)) if found and line.isdigit() else None


def name_of(node: torch.fx.Node) -> str:
    """A node's name, behind the path of the module whose forward pass it is from."""
    stack = node.meta.get("nn_module_stack")
    path = list(stack.values())[-1][0] if stack else ""
    path = module_path(path) if isinstance(path, str) else ""
    return f"{path}:{node.name}" if path else node.name


def module_path(dynamo: str) -> str:
    """What a user would write for "L['self']._modules['encoder'].layer.0" and its kin."""
    path = re.sub(r"\._modules\['?(\w+)'?\]", r".\1", dynamo)
    path = re.sub(r"^[LG]\['(self|fn)'\]\.?", "", path)  # the module itself that was compiled
    return re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)


def numbers_of(gm: torch.fx.GraphModule) -> dict[str, int]:
    """The name of each node → its number."""
    return {node.name: i for i, node in enumerate(gm.graph.nodes)}


def by_number(metadata: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
    """Has the metadata of an artefact name the nodes of its steps by number; in place. What no node made has none."""
    for entry in _entries(metadata):
        name = entry.pop("node", None)
        if name in numbers:
            entry["node"] = numbers[name]


def in_lines_of(metadata: Mapping[str, Any], gm: torch.fx.GraphModule) -> None:
    """Has the metadata of an artefact name lines of this graph, which is equal to the one it was made for; in place.
    What no node made has none."""
    nodes = list(gm.graph.nodes)
    for entry in _entries(metadata):
        number = entry.get("node", len(nodes))
        entry["where"] = _place_of(nodes[number]) if number < len(nodes) else ""


def without_lines(metadata: Mapping[str, Any]) -> None:
    """Has the metadata of an artefact name no lines, for want of the graph that it is used for; in place."""
    for entry in _entries(metadata):
        entry["where"] = ""


def _place_of(node: torch.fx.Node) -> str:
    frame = frame_of(node)
    return f"{frame[0]}:{frame[1]}" if frame else name_of(node)


def _entries(metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is said of a program with the line that it comes from."""
    for entry in (*metadata["program"]["steps"], *metadata["report"]["aten_calls"]):
        if "where" in entry:
            yield entry
