"""Prints the import graph of cuesta: `python -m cuesta.tools.import_graph [--picture docs/rooms.svg]`.

Prints the rooms (packages) from the lowest up, each with its imports, and the import cycles among modules. Imports
within functions and imports for type checking count like those at a module's top. The picture shows each room above all
rooms that it imports.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("cuesta", "dialects", "frontend", "lowering", "passes", "tools")
#: Folders in cuesta/ that are rooms of their own; the other modules of cuesta/ are one room.
_WITHIN = ("driver", "export", "policy", "reports", "runtime", "sizes", "torch_private")


def modules() -> dict[str, Path]:
    """Dotted name → path of every module of cuesta, each once: in its real folder, not through the link in cuesta/."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[0] == "cuesta" and len(parts) > 1 and parts[1] in FOLDERS:
                continue
            parts = parts if parts[0] == "cuesta" else ("cuesta", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return dict(sorted(found.items()))


def import_graph() -> networkx.DiGraph:
    """Module → the modules that it imports anywhere. `from package import module` is an edge to the module only."""
    known = modules()
    graph = networkx.DiGraph()
    graph.add_nodes_from(known)
    for name, path in known.items():
        graph.add_edges_from((name, target) for target in _imports(path, known) if target != name)
    return graph


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """The import cycles: sets of modules that import one another, directly or through others."""
    return sorted(sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1)


def rooms(graph: networkx.DiGraph) -> networkx.DiGraph:
    """The import graph of rooms: top-level folders, or folders in cuesta/. A node's `size` is its number of modules."""
    found = networkx.DiGraph()
    for module in graph:
        found.add_node(room_of(module))
        found.nodes[room_of(module)]["size"] = found.nodes[room_of(module)].get("size", 0) + 1
    for a, b in graph.edges:
        if room_of(a) != room_of(b):
            found.add_edge(room_of(a), room_of(b))
    return found


def room_of(module: str) -> str:
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in _WITHIN:
        return f"cuesta/{parts[1]}"
    return f"{parts[1]}/" if len(parts) > 1 and parts[1] in FOLDERS else "cuesta"


def draw(graph: networkx.DiGraph, path: Path) -> None:
    """Writes a picture of the rooms, with importers above their imports."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "cuesta"  # makes the file reproducible
    from matplotlib import pyplot

    for height, level in enumerate(reversed(list(networkx.topological_generations(_without_circles(graph))))):
        for room in level:
            graph.nodes[room]["height"] = height
    places = networkx.multipartite_layout(graph, subset_key="height", align="horizontal")
    figure, axes = pyplot.subplots(figsize=(9, 9), layout="constrained")
    labels = {room: f"{room}\n{graph.nodes[room]['size']}" for room in graph}
    reduced = networkx.transitive_reduction(_without_circles(graph))
    networkx.draw_networkx_edges(
        reduced, places, ax=axes, edge_color="#8c8c8c", node_size=2200, arrowsize=12, connectionstyle="arc3,rad=0.08"
    )
    boxes = {"boxstyle": "round", "facecolor": "#e8f0f8", "edgecolor": "#2f6fb3"}
    networkx.draw_networkx_labels(graph, places, labels, ax=axes, font_size=9, bbox=boxes)
    axes.set_axis_off()
    axes.margins(0.12)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _without_circles(graph: networkx.DiGraph) -> networkx.DiGraph:
    """The graph without the edges from room "cuesta" up to others: they are the package's lazy attributes."""
    up = [(a, b) for a, b in graph.edges if a == "cuesta"]
    found = graph.copy()
    found.remove_edges_from(up)
    return found


def import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import in a module, also those in functions. Looks at statements only: ast.walk, which looks into
    expressions as well, takes longer than it takes to parse the module."""
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, block, [])


def _imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the graph, draws it for --picture, and returns 1 if there is a cycle."""
    parser = argparse.ArgumentParser(
        prog="python -m cuesta.tools.import_graph", description="prints which rooms import which"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture of the rooms to this file (.svg)")
    given = parser.parse_args(arguments)
    graph = import_graph()
    found = rooms(graph)
    for level in reversed(list(networkx.topological_generations(_without_circles(found)))):
        for room in sorted(level):
            print(
                f"{room:16} {found.nodes[room]['size']:4} modules, imports {', '.join(sorted(found[room])) or 'none'}"
            )
    for circle in circles(graph):
        print("circle:", ", ".join(circle))
    if given.picture is not None:
        draw(found, given.picture)
    return 1 if circles(graph) else 0


if __name__ == "__main__":
    sys.exit(main())
