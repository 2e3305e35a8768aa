"""The decompositions of cdist and pdist, against ATen's own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.frontend.decompositions.table import decompositions

aten = torch.ops.aten


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X, Y = floats(2, 7, 5), floats(2, 4, 5)
#: Equal points, and points that agree in one place.
X[0, 1], X[1, 2, 3] = Y[0, 2], Y[1, 1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_cdist(p: float, dtype: torch.dtype) -> None:
    x, y, grad = X.to(dtype), Y.to(dtype), floats(2, 7, 4).to(dtype)
    table = decompositions()
    far = aten._cdist_forward(x, y, p, None)
    torch.testing.assert_close(table[aten._cdist_forward.default](x, y, p, None), far)
    mine = table[aten._cdist_backward.default](grad, x, y, p, far)
    torch.testing.assert_close(mine, aten._cdist_backward(grad, x, y, p, far))
    broadcast = aten._cdist_forward(x[0], y, p, None)
    mine = table[aten._cdist_backward.default](grad, x[0], y, p, broadcast)
    torch.testing.assert_close(mine, aten._cdist_backward(grad, x[0], y, p, broadcast))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_pdist(p: float) -> None:
    table, grad = decompositions(), floats(21)
    far = aten._pdist_forward(X[0], p)
    torch.testing.assert_close(table[aten._pdist_forward.default](X[0], p), far)
    mine = table[aten._pdist_backward.default](grad, X[0], p, far)
    torch.testing.assert_close(mine, aten._pdist_backward(grad, X[0].contiguous(), p, far))


def test_what_stays_a_product_or_has_nothing_to_add() -> None:
    forward, backward = (decompositions()[op.default] for op in (aten._cdist_forward, aten._cdist_backward))
    nothing = X[:, :0]
    assert forward(X, Y, 2.0, 1) is NotImplemented
    assert forward(floats(26, 3), floats(2, 3), 2.0, None) is NotImplemented
    assert forward(nothing, Y, 1.0, None) is NotImplemented
    assert backward(floats(2, 0, 4), nothing, Y, 1.0, floats(2, 0, 4)) is NotImplemented


CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "city blocks": lambda x, y: torch.cdist(x, y, 1.0),
    "few points": lambda x, y: torch.cdist(x, y),
}


@pytest.mark.parametrize("function", CASES.values(), ids=CASES.keys())
def test_compiled_with_gradients(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def gradients(run: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor | None]:
        x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
        run(x, y).square().sum().backward()
        return [x.grad, y.grad]

    torch._dynamo.reset()
    torch.testing.assert_close(gradients(torch.compile(function, backend="cuesta")), gradients(function))
    assert [graph.aten_calls for graph in cuesta.report().graphs] == [[], []]
