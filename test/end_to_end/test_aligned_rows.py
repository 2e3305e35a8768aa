"""A head whose classes fill no aligned row, on the way to a GPU (target "tt"): what becomes of it in training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import cuesta

Tensor = torch.Tensor


@pytest.mark.parametrize("returned", [False, True])
def test_head_in_training(returned: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(sizes, generator=generator).bfloat16() for sizes in ((4, 128, 512), (515, 512), (515,))
    )
    targets = torch.randint(0, 515, (512,), generator=generator)

    def head(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        logits = F.linear(x, weight, bias)
        return logits if returned else F.cross_entropy(logits.float().view(-1, 515), targets)

    def results(function: object, dtype: torch.dtype) -> list[Tensor]:
        leaves = [t.to(dtype).requires_grad_() for t in (x, weight, bias)]
        result = function(*leaves)  # type: ignore[operator]
        result.float().square().mean().backward()
        return [result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    exact, eager = results(head, torch.float64), results(head, torch.bfloat16)
    options = {"target": "tt", "cache": False}
    torch._dynamo.reset()
    made = results(torch.compile(head, backend="cuesta", options=options), torch.bfloat16)
    for ours, own, wide in zip(made, eager, exact, strict=True):
        assert ours.stride() == own.stride()
        # The bias is added to what the product was rounded to: one rounding more than in eager. A loss is one draw.
        assert float((ours - wide).norm()) <= 1.5 * float((own - wide).norm()) + 5e-4 * float(wide.norm())
    forward, backward = cuesta.report().graphs
    assert [graph.fallback for graph in (forward, backward)] == [None, None]
    # The addition, the conversion and the loss are one kernel, the last sum another; or all that is left is to add.
    assert forward.launches == (1 if returned else 2)
    assert {call["op"] for call in forward.aten_calls + backward.aten_calls} == {"aten.mm.default"}
