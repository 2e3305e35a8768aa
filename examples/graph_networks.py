"""torch_geometric: GCN, GraphSAGE and GAT trained on sampled parts of a graph, each part of another size.

    pip install torch_geometric
    python examples/graph_networks.py

A part is a few random nodes with all nodes within two steps of them, as NeighborLoader samples it with a library that
this does without. With `dynamic=True` one program serves all sizes. Losses and weights are eager's.

GCN and GAT want an edge from each node to itself. What the library adds in the model breaks the graph, because it looks
for those that are there, and how many there are only the data tell. So they are added to the data once, and the
model is told (`add_self_loops=False`); it is one graph then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE
from torch_geometric.utils import add_remaining_self_loops, k_hop_subgraph

BACKEND = "cuesta"
NODES, FEATURES, CLASSES = 400, 16, 4
ROUNDS = 3


def make_graph() -> Data:
    """Nodes with three random neighbours each; a node's class is the largest of the means of its neighbours' first
    features."""
    x = torch.randn(NODES, FEATURES)
    to = torch.arange(NODES).repeat_interleave(3)
    edges = torch.stack([torch.randint(NODES, to.shape), to])
    means = x[edges[0], :CLASSES].view(NODES, 3, CLASSES).mean(1)
    edges, _ = add_remaining_self_loops(edges, num_nodes=NODES)
    return Data(x=x, edge_index=edges, y=means.argmax(1))


@dataclass
class Part:
    """A part of a graph, and where in it the nodes are whose class is asked for."""

    x: Tensor
    edges: Tensor
    seeds: Tensor
    labels: Tensor


def make_parts(graph: Data, count: int) -> list[Part]:
    parts = []
    for n in range(count):
        seeds = torch.randperm(NODES)[: 16 + n]
        nodes, edges, position, _ = k_hop_subgraph(seeds, 2, graph.edge_index, relabel_nodes=True)
        parts.append(Part(graph.x[nodes], edges, position, graph.y[seeds]))
    return parts


def train(model: nn.Module, compiled: Callable[[Tensor, Tensor], Tensor], parts: list[Part]) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for part in parts * ROUNDS:
        optimizer.zero_grad()
        scores = compiled(part.x, part.edges)[part.seeds]
        loss = nn.functional.cross_entropy(scores, part.labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(name: str, make_model: Callable[..., nn.Module], parts: list[Part]) -> None:
    """Trains two equal models, one compiled."""
    results = []
    for backend in (BACKEND, None):
        torch.manual_seed(0)
        model = make_model(FEATURES, hidden_channels=32, num_layers=2, out_channels=CLASSES)
        called = model if backend is None else torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
        losses = train(model, called, parts)
        results.append((losses, model.state_dict()))
    (ours, _), (theirs, _) = results
    print(f"{name}: loss {ours[0]:.4f} to {ours[-1]:.4f}, eager {theirs[0]:.4f} to {theirs[-1]:.4f}")
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


def main() -> None:
    torch.manual_seed(0)
    parts = make_parts(make_graph(), 12)
    print(f"{len(parts)} parts of {min(len(p.x) for p in parts)} to {max(len(p.x) for p in parts)} nodes")
    compare("GCN", partial(GCN, add_self_loops=False), parts)
    compare("GraphSAGE", GraphSAGE, parts)
    compare("GAT", partial(GAT, heads=4, add_self_loops=False), parts)


if __name__ == "__main__":
    main()
