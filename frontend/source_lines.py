"""Maps the steps of a cached program to lines of Python, though the program may have been compiled for another graph.

Equal graphs share one program in the cache, but their nodes may come from different lines. A cached program therefore
stores, for each step, the number of the node that the step was made from, counted from the graph's first node. Each
compile that finds the program looks the number up in its own graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from torch.fx import GraphModule, Node

from cuesta.runtime.artefact import Metadata
from cuesta.runtime.schema.report import Origin

_FRAME = 'File "'


def frame_of(node: Node) -> tuple[str, int] | None:
    """The file and line of the innermost Python frame in which a node was traced."""
    _, found, frame = (node.meta.get("stack_trace") or "").rpartition(_FRAME)
    file, _, rest = frame.partition('", line ')
    line = rest.partition(",")[0]
    return (file, int(line)) if found and line.isdigit() else None


def name_of(node: Node) -> str:
    """A node's name, prefixed with the path of the module in whose forward pass it was traced."""
    stack = node.meta.get("nn_module_stack")
    path = list(stack.values())[-1][0] if stack else ""
    path = module_path(path) if isinstance(path, str) else ""
    return f"{path}:{node.name}" if path else node.name


def module_path(dynamo: str) -> str:
    """Dynamo's path of a module as a user would write it: encoder.layer.0 for L['self']._modules['encoder'].layer.0."""
    path = re.sub(r"\._modules\['?(\w+)'?\]", r".\1", dynamo)
    path = re.sub(r"^[LG]\['(self|fn)'\]\.?", "", path)  # the compiled module itself
    return re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)


def numbers_of(gm: GraphModule) -> dict[str, int]:
    """The name of each node → its number."""
    return {node.name: i for i, node in enumerate(gm.graph.nodes)}


def by_number(metadata: Metadata, numbers: Mapping[str, int]) -> None:
    """Replaces node names in an artefact's metadata by node numbers, in place. Steps without a node get no number."""
    for entry in _entries(metadata):
        name = entry.pop("node", None)
        if isinstance(name, str) and name in numbers:
            entry["node"] = numbers[name]


def in_lines_of(metadata: Metadata, gm: GraphModule) -> None:
    """Fills lines of this graph into an artefact's metadata, in place; the graph equals the one the artefact was made
    for. Steps without a node get no line."""
    nodes = list(gm.graph.nodes)
    for entry in _entries(metadata):
        number = entry.get("node")
        entry["where"] = _place_of(nodes[number]) if isinstance(number, int) and number < len(nodes) else ""


def without_lines(metadata: Metadata) -> None:
    """Empties the lines in an artefact's metadata, in place, where the graph that uses the artefact is not at hand."""
    for entry in _entries(metadata):
        entry["where"] = ""


def _place_of(node: Node) -> str:
    frame = frame_of(node)
    return f"{frame[0]}:{frame[1]}" if frame else name_of(node)


def _entries(metadata: Metadata) -> Iterator[Origin]:
    """The entries of an artefact's metadata that have a source line."""
    yield from (step for step in metadata["program"]["steps"] if step["kind"] != "check")
    yield from metadata["report"]["aten_calls"]
