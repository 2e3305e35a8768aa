"""Writes at computed positions, as imported, against eager; positions repeat where eager says what that gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]
aten = torch.ops.aten


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def wholes(high: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, high, sizes, generator=torch.Generator().manual_seed(high + sum(sizes)))


X, ROWS, AT = floats(5, 6), floats(7, 6), wholes(5, 7)
LAST = wholes(6, 5, 4)
SCALAR = torch.tensor(3.0)
APART = torch.tensor([3, 0, 4])

CASES: dict[str, tuple[Any, ...]] = {
    "index_add": (lambda x, i, v: (x.index_add(0, i, v), x.t().index_add(-1, i, v.t(), alpha=-2)), X, AT, ROWS),
    "index_add of ints": (lambda x, i, v: x.index_add(0, i.int(), v), X.int(), AT, ROWS.int()),
    "index_add, narrow": (lambda x, i, v: x.index_add(0, i, v, alpha=0.5), X.bfloat16(), AT, ROWS.bfloat16()),
    "index_add to a scalar": (lambda x, i: x.index_add(0, i, x), SCALAR, torch.tensor(0)),
    "index_copy": (lambda x, i, v: (x.index_copy(0, i, v), x > x.index_copy(0, i, v)), X, APART, ROWS[:3]),
    "index_fill": (lambda x, i: (x.index_fill(1, i - 5, 2), x.index_fill(0, i, x.sum())), X, APART),
    "index_reduce": (
        lambda x, i, v: [
            x.index_reduce(0, i, v, how, include_self=own) for how in ("prod", "amax", "amin") for own in (True, False)
        ],
        *(X, AT, ROWS),
    ),
    "index_put": (
        lambda x, i, v: (
            x.index_put((i,), v),
            aten.index_put(x, (None, i), v[0, :3]),
            x.index_put((i, i + 1), v[:, 0]),
        ),
        *(X, APART, ROWS[:3]),
    ),
    "index_put, adding": (
        lambda x, i, v: (x.index_put((i - 5,), v, True), x.index_put((i[:, None], i % 3), SCALAR, True)),
        *(X, AT, ROWS),
    ),
    "index_put around a dim": (
        lambda x, i: aten.index_put(x, (i, None, i), x[0, :, :1].t(), True),
        *(floats(5, 3, 5), APART),
    ),
    "index_put of bools": (lambda x, i: (x > 0).index_put((i,), x[:1] > 0.5, True), X, AT),
    "put": (lambda x, i, v: (x.put(i - 3, v, True), x.put(i[:1], v[:1])), X, AT[:6] + 10, ROWS[0]),
    "scatter": (lambda x, i, v: (x.scatter(1, i, 2.0), x.scatter(1, i[:3], v[:, :4])), X, LAST[:, :1].expand(5, 2), X),
    "scatter_add": (lambda x, i, v: (x.scatter_add(1, i, v), x.scatter_add(0, i[:2] % 5, v)), X, LAST, X),
    "scatter_add to a scalar": (lambda x, i: x.scatter_add(0, i, x), SCALAR, torch.tensor(0)),
    "scatter_reduce": (
        lambda x, i, v: [
            x.scatter_reduce(1, i, v, how, include_self=own)
            for how in ("sum", "prod", "amax", "amin")
            for own in (True, False)
        ],
        *(X, LAST, X.flip(0)),
    ),
    "means": (
        lambda x, n, i, j: [
            (
                x.scatter_reduce(1, i, x, "mean", include_self=own),
                n.scatter_reduce(1, i, n, "mean", include_self=own),
                x.index_reduce(0, j, x[:3], "mean", include_self=own),
            )
            for own in (True, False)
        ],
        *(X, (X * 9).long(), LAST, APART),
    ),
    "scatter with a reduction": (lambda x, i: x.scatter(1, i, 2.0, reduce="multiply"), X, LAST),
    "scatter_reduce of nan": (lambda x, i: x.scatter_reduce(1, i, x.log(), "amax"), X, LAST),
    "scatter_reduce of bytes": (lambda x, i: x.scatter_reduce(1, i, x + 200, "amax"), X.to(torch.uint8), LAST),
    "embedding_dense_backward": (
        lambda g, i: (
            aten.embedding_dense_backward(g, i, 5, -1, False),
            aten.embedding_dense_backward(g, i.reshape(7), 6, 3, False),
            aten.embedding_dense_backward(g, i, 500, -1, False),
        ),
        *(ROWS, AT),
    ),
    "masked_scatter": (lambda x, v: (x.masked_scatter(x > 0, v), x.masked_scatter(x[0] > 0, v)), X, ROWS),
    "masked_scatter_backward": (
        lambda g: (
            aten.masked_scatter_backward(g, g > 0, [7, 6]),
            aten.masked_scatter_backward(g, g[0] > 0, [5, 6]),
            aten.masked_scatter_backward(g, g > 9, [3]),
        ),
        X,
    ),
    "histc": (
        lambda x: (x.histc(4, -1, 1), (x * 0.25).histc(7, -0.25, 0.5), (x.sqrt() * 5).double().histc(10, 0, 1)),
        X.clamp(-1, 1),
    ),
    "a mask with a number": (lambda x: x.index_put((x > 0,), SCALAR), X),
    "complex numbers": (
        lambda z, i: (z.index_copy(0, i, z[:3]), z.scatter(1, i[:, None].expand(3, 2), 1j)),
        *(torch.complex(X, X), APART),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_import_matches_eager(name: str, matches_eager: Check) -> None:
    function, *inputs = CASES[name]
    run = matches_eager(function, *inputs)
    assert not run.reasons()


CALLED: dict[str, tuple[Any, ...]] = {
    "without a range": (lambda x: x.histc(4), X),
    "scale_grad_by_freq": (
        lambda g, i: aten.embedding_dense_backward(g, i, 5, -1, True),
        *(ROWS, AT),
    ),
    "complex numbers": (
        lambda z, i: z.index_put((i,), z[:1], True),
        *(torch.complex(X, X), AT),
    ),
}


@pytest.mark.parametrize("cause", CALLED)
def test_calls_that_stay(cause: str, matches_eager: Check) -> None:
    function, *inputs = CALLED[cause]
    reasons = matches_eager(function, *inputs).reasons().values()
    assert any(cause in reason for reason in reasons)
