"""torch_geometric: GCN, GraphSAGE and GAT trained on sampled parts of a graph, each part of another size.

    pip install torch_geometric
    python examples/graph_networks.py

A part is a few random nodes with all nodes within two steps of them, as NeighborLoader samples it with a library that
this does without. With `dynamic=True` one program serves all sizes. Losses and weights are eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE
from torch_geometric.utils import k_hop_subgraph

BACKEND = "cuesta"
NODES, FEATURES, CLASSES = 400, 16, 4


def make_graph() -> Data:
    """Nodes with three random neighbours each; a node's class is the largest of the means of its neighbours' first
    features."""
    x = torch.randn(NODES, FEATURES)
    to = torch.arange(NODES).repeat_interleave(3)
    edges = torch.stack([torch.randint(NODES, to.shape), to])
    means = x[edges[0], :CLASSES].view(NODES, 3, CLASSES).mean(1)
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
    for part in parts:
        optimizer.zero_grad()
        scores = compiled(part.x, part.edges)[part.seeds]
        loss = nn.functional.cross_entropy(scores, part.labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(make_model: Callable[..., nn.Module], parts: list[Part]) -> None:
    """Trains two equal models, one compiled."""
    results = []
    for backend in (BACKEND, "eager"):
        torch.manual_seed(0)
        model = make_model(FEATURES, hidden_channels=32, num_layers=2, out_channels=CLASSES)
        losses = train(model, torch.compile(model, backend=backend, dynamic=True), parts)
        results.append((losses, model.state_dict()))
    (ours, _), (theirs, _) = results
    print(f"{make_model.__name__}: loss {ours[0]:.4f} to {ours[-1]:.4f}, eager {theirs[0]:.4f} to {theirs[-1]:.4f}")
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


def main() -> None:
    torch.manual_seed(0)
    parts = make_parts(make_graph(), 12)
    print(f"{len(parts)} parts of {min(len(p.x) for p in parts)} to {max(len(p.x) for p in parts)} nodes")
    for make_model in (GCN, GraphSAGE, GAT):
        compare(make_model, parts)


if __name__ == "__main__":
    main()
