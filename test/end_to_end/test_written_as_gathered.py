"""On a GPU, scores that are read at positions along a dim that is not their fastest in memory are transposed first."""

from __future__ import annotations

import torch
from torch import Tensor

import cuesta


def by_distance(scores: Tensor, positions: Tensor) -> Tensor:
    """As the gradient of an attention's scores by distance: sums of what lies at several positions of each column."""
    turned = (scores - scores.amax(-1, keepdim=True)).exp().transpose(1, 2)
    near = positions.clamp(0, 511).expand(len(scores), -1, -1)
    far = (positions + 1).clamp(0, 511).expand(len(scores), -1, -1)
    batch, rows = torch.arange(len(scores))[:, None, None], torch.arange(512)[:, None]
    return turned[batch, rows, near] + turned[batch, rows, far]


def test_results_and_kernels() -> None:
    torch.manual_seed(0)
    scores, positions = torch.randn(4, 512, 512), torch.arange(512)[:, None] - torch.arange(512) + 256
    compiled = torch.compile(by_distance, backend="cuesta", options={"target": "tt"}, fullgraph=True)
    torch.testing.assert_close(compiled(scores, positions), by_distance(scores, positions))
    (graph,) = cuesta.report().graphs
    assert sum("copy" in kernel["ops"] for kernel in graph.kernels) == 1
