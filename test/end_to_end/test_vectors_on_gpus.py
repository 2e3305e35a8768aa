"""One row, as in a decoding step, on a GPU: products by a vector are kernels, and what is around them joins them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.export.compile_for import TargetModel
from cuesta.tools.models.quantised import Int4Linear, Int8Linear

WIDTH, HEADS = 256, 4


class Step(torch.nn.Module):
    """A norm, queries with a rotary embedding, a gated layer with its residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.queries = torch.nn.Linear(WIDTH, WIDTH)
        self.gate, self.up = (torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(x)
        q = self.queries(x).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(-3, -2)
        first, second = q.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        gated = torch.nn.functional.silu(self.gate(x)) * self.up(x)
        return q * angles.cos() + turned * angles.sin(), x + self.down(gated)


def inputs(rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(1, rows, WIDTH, dtype=dtype), torch.randn(rows, WIDTH // HEADS).to(dtype)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results(rows: int, dtype: torch.dtype) -> None:
    model, given = Step().to(dtype), inputs(rows, dtype)
    with torch.no_grad():
        exact = model.double()(*(x.double() for x in given))
        model.to(dtype)
        eager = model(*given)
        actual = torch.compile(model, backend="cuesta", options={"target": "tt"}, dynamic=False)(*given)
    for ours, theirs, right in zip(actual, eager, exact, strict=True):
        assert (ours - right).norm() <= 2 * (theirs - right).norm() + 1e-6


def test_kernels_of_one_row() -> None:
    made = compiled(1)
    assert not made.aten_calls
    # The norm; the queries, together with gate and up and what joins those; what turns the queries; down with its
    # residual.
    assert len(made.kernels) == 4


def test_products_of_several_rows_are_the_librarys() -> None:
    assert compiled(3).aten_calls == {"aten.mm.default": 3, "aten.addmm.default": 1}


@pytest.mark.parametrize("narrow", [Int8Linear, Int4Linear])
def test_narrow_weights_are_widened_in_the_kernel(narrow: Callable[[Tensor], torch.nn.Module]) -> None:
    torch.manual_seed(0)
    layer, x = narrow(torch.randn(2 * WIDTH, WIDTH)).bfloat16(), torch.randn(1, WIDTH).bfloat16()
    actual = torch.compile(layer, backend="cuesta", options={"target": "tt"}, dynamic=False)(x)
    eager, exact = layer(x), layer.double()(x.double())
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]
    assert len(graph["kernels"]) == 1


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_byte_becomes_its_number(kind: torch.dtype, dtype: torch.dtype) -> None:
    bytes_ = torch.arange(256).to(torch.uint8).view(kind)
    compiled = torch.compile(lambda x: x.to(dtype) / 2, backend="cuesta", options={"target": "tt"}, dynamic=False)
    assert torch.equal(compiled(bytes_), bytes_.to(dtype) / 2)


def compiled(rows: int) -> TargetModel:
    dtype = torch.bfloat16
    return cuesta.compile_for(Step().to(dtype).eval(), inputs(rows, dtype), target="cuda:90")
