"""The gradient of an extreme of what is computed: where it lies is not decided a second time."""

from __future__ import annotations

import pytest
import torch

from cuesta.frontend.capture.aot import partition


@pytest.mark.parametrize("extreme", [torch.amax, torch.amin])
def test_an_extreme_of_recomputed_sums_has_its_gradient(extreme):
    """Sums of three, which the backward graph computes again in a kernel with more in it."""

    def loss(x):
        ends = torch.trapezoid(x, dim=0)
        least = extreme(ends, -2, keepdim=True)
        kept = torch.minimum(x.sin(), least)
        return kept.index_reduce(0, torch.arange(3) // 2, kept, "prod").sum()

    def gradient(function):
        x = (torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0)) * 2).requires_grad_()
        function(x).backward()
        return x.grad

    torch.testing.assert_close(gradient(torch.compile(loss, backend="cuesta")), gradient(loss))


def test_the_mask_is_saved():
    """The partitioner makes the mask in the forward graph: less to save than the product, which stays there."""
    seen = {}

    def keep(joint, inputs, **kwargs):
        seen["forward"], seen["backward"] = partition(joint, inputs, **kwargs)
        return seen["forward"], seen["backward"]

    def loss(x):
        return (x.sin() * x).amax(-1).sum()

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    backend = aot_autograd(fw_compiler=lambda gm, _: make_boxed_func(gm.forward), partition_fn=keep)
    torch.compile(loss, backend=backend)(torch.randn(4, 8, requires_grad=True)).backward()
    targets = {name: [n.target for n in graph.graph.nodes] for name, graph in seen.items()}
    assert torch.ops.aten.eq.Tensor in targets["forward"]
    assert torch.ops.aten.eq.Tensor not in targets["backward"]
