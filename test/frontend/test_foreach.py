"""Ops over lists of tensors, each against ATen's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cuesta
from cuesta.frontend.decompositions.foreach import foreach_decompositions

TABLE = foreach_decompositions()


def lists(count: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [[torch.rand(s, generator=generator) + 0.5 for s in ((3,), (2, 2), ())] for _ in range(count)]


@pytest.mark.parametrize("overload", TABLE, ids=str)
def test_overload(overload: Any) -> None:
    tensors = iter(lists(3))

    def example(kind: str) -> Any:
        match kind:
            case "List[Tensor]":
                return next(tensors)
            case "List[number]":
                return [1.5, 2.0, -0.5]
            case "Tensor":
                return torch.tensor(0.75)
            case "Optional[int]":
                return None
        return 1.25

    args = [example(str(a.type)) for a in overload._schema.arguments if not a.kwarg_only]
    torch.testing.assert_close(TABLE[overload](*args), overload(*args), rtol=0, atol=0, equal_nan=True)


def test_alpha() -> None:
    x, y = lists(2)
    overload = torch.ops.aten._foreach_sub.List
    torch.testing.assert_close(TABLE[overload](x, y, alpha=3), overload(x, y, alpha=3), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_an_optimizer_over_lists_is_kernels_alone(kind: type[torch.optim.Optimizer]) -> None:
    torch._dynamo.reset()
    ours, theirs = ([torch.nn.Parameter(p.clone()) for p in lists(1)[0]] for _ in range(2))
    for a, b, grad in zip(ours, theirs, lists(2)[1], strict=True):
        a.grad, b.grad = grad.clone(), grad.clone()
    momentum = {"momentum": 0.9} if kind in (torch.optim.SGD, torch.optim.RMSprop) else {}
    steps = [kind(parameters, lr=0.01, foreach=True, **momentum) for parameters in (ours, theirs)]
    compiled = torch.compile(lambda: steps[0].step(), backend="cuesta")
    for _ in range(3):
        compiled()
        steps[1].step()
        torch.testing.assert_close(ours, theirs)
    for graph in cuesta.report().graphs:
        assert graph.fallback is None and not graph.aten_calls
