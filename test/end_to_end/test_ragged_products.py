"""A head whose classes fill no aligned row, on the way to a GPU (target "tt"): kernels of ours, in training too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.dialects.product import Tile
from cuesta.export.compile_for import trace
from cuesta.passes.libraries.products import routes
from cuesta.passes.libraries.products.tiles import Plan
from cuesta.targets import parse_target

Tensor = torch.Tensor


@pytest.mark.parametrize("returned", [False, True])
def test_head_in_training(returned: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(sizes, generator=generator).bfloat16() for sizes in ((4, 128, 512), (1003, 512), (1003,))
    )
    targets = torch.randint(0, 1003, (512,), generator=generator)

    def head(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        logits = F.linear(x, weight, bias)
        return logits if returned else F.cross_entropy(logits.float().view(-1, 1003), targets)

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
        # A loss is one draw.
        assert float((ours - wide).norm()) <= 1.1 * float((own - wide).norm()) + 5e-4 * float(wide.norm())
    forward, backward = cuesta.report().graphs
    assert [graph.fallback for graph in (forward, backward)] == [None, None]
    # The product with its bias, the loss, the last sum; the gradient in aligned rows, two products, a sum.
    assert forward.launches == (1 if returned else 3)
    assert backward.launches == (3 if returned else 4)
    assert not forward.aten_calls and not backward.aten_calls


def test_head_of_any_batch_and_length() -> None:
    generator = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(512, 1003).bfloat16()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    torch._dynamo.reset()
    call = torch.compile(head, backend="cuesta", dynamic=True, options={"target": "tt", "cache": False})
    for batch, length in ((4, 128), (3, 17), (2, 2), (2, 150)):
        x = torch.randn(batch, length, 512, generator=generator).bfloat16()
        with torch.no_grad():
            made, own, exact = call(x), head(x), F.linear(x.double(), *(p.double() for p in head.parameters()))
        assert made.stride() == own.stride()
        assert float((made - exact).norm()) <= 1.1 * float((own - exact).norm())
    (graph,) = cuesta.report().graphs
    assert graph.launches == 1 and not graph.aten_calls


@pytest.mark.parametrize("bias", [False, True])
def test_programs_that_take_blocks_in_turns(monkeypatch: pytest.MonkeyPatch, bias: bool) -> None:
    plan = Plan(Tile(64, 64, 64, 4, 3, programs=7))
    monkeypatch.setattr(routes, "_plan_of_ragged_rows", lambda *_: plan)
    generator = torch.Generator().manual_seed(0)
    x, weight, b = (torch.randn(sizes, generator=generator).bfloat16() for sizes in ((500, 512), (1003, 512), (1003,)))

    def head(x: Tensor) -> Tensor:
        return F.linear(x, weight, b if bias else None)

    torch._dynamo.reset()
    made = torch.compile(head, backend="cuesta", options={"target": "tt", "cache": False})(x)
    (graph,) = cuesta.report().graphs
    assert [kernel["grid"] for kernel in graph.kernels] == [[7, 1, 1]]
    exact = x.double() @ weight.double().t() + (b.double() if bias else 0)
    assert (made - exact).norm() <= 1.01 * (head(x) - exact).norm()


def test_a_padded_result_is_viewed_in_another_shape() -> None:
    """No strides show rows with padding behind them as rows of another length: graphs that run op by op copy them."""

    class Kernels(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernels = torch.nn.Linear(384, 54)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.kernels(x).view(-1, 9).softmax(1)[:, 0].sum()

    graphs = trace(Kernels(), torch.empty(4, 512, 384), parse_target("cuda:90"), training=True)
    assert [graph.kind for graph in graphs] == ["forward", "backward"]
    assert "constant_pad_nd" in str(graphs[0].module.graph)
