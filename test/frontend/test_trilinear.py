"""The decomposition of torch._trilinear, against ATen's own."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.frontend.decompositions.table import decompositions

aten = torch.ops.aten
SIZES = (2, 3, 4, 5)


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)), dtype=torch.float64)


#: What an operand may lack of four dims: each has one at least.
LISTS = [[], [1], [0, 3], [1, 2]]


@pytest.mark.parametrize("summed", [[0], [2, 3], [1, 3], [0, 1, 2, 3]], ids=str)
def test_trilinear(summed: list[int]) -> None:
    mine = decompositions()[aten._trilinear.default]
    for lists in itertools.product(LISTS, repeat=3):
        if set.intersection(*map(set, lists)):
            continue  # a dim that none of them has
        xs = [floats(*(n for d, n in enumerate(SIZES) if d not in without)) for without in lists]
        expected = aten._trilinear(*xs, *lists, summed)
        torch.testing.assert_close(mine(*xs, *lists, summed), expected, msg=lambda m, lists=lists: f"{lists}: {m}")


def test_a_bilinear_layer_and_its_gradients_are_products() -> None:
    def gradients(run: object) -> list[Tensor | None]:
        xs = [floats(*sizes).float().requires_grad_() for sizes in ((6, 7), (6, 5), (4, 7, 5), (4,))]
        run(*xs).square().sum().backward()  # type: ignore[operator]
        return [x.grad for x in xs]

    torch._dynamo.reset()
    torch.testing.assert_close(gradients(torch.compile(F.bilinear, backend="cuesta")), gradients(F.bilinear))
    calls = {call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls}
    assert calls <= {"aten.mm.default", "aten.bmm.default"}
