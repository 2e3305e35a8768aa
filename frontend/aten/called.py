"""What no loop over the places of a result expresses: calls into ATen, and why.

Writes to positions that the graph computes are compiled (`scatter.py`), but for these.
"""

from __future__ import annotations

from typing import Any

import torch

from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.frontend.rules import Decline, imports

_WRITES = "writes to computed positions"

#: reason → ops
CALLED: dict[str, tuple[str, ...]] = {
    _WRITES: (
        *("col2im", "as_strided_scatter", "histc", "grid_sampler_2d_backward", "grid_sampler_3d_backward"),
        *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
    ),
    "an order that the numbers decide: ATen sorts": (
        *("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"),
    ),
    "reads between pixels, which ATen gathers by vectors": ("grid_sampler_2d", "grid_sampler_3d"),
    "matrix products run in the library": ("addbmm",),
    "random numbers are torch's own": (
        *("bernoulli", "exponential", "geometric", "cauchy", "log_normal", "normal", "uniform", "multinomial"),
        *("poisson", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
    ),
}


def _declines(reason: str, *names: str) -> None:
    @imports(*names)
    def decline(b: GraphBuilder, node: torch.fx.Node, *_: Any, **__: Any) -> None:
        raise Decline(reason)


for _reason, _names in CALLED.items():
    _declines(_reason, *_names)
