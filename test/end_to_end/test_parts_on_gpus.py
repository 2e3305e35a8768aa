"""Launches that write parts of one tensor, and sums in parts, as a GPU has them, in tt's interpreter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def test_tables_side_by_side() -> None:
    """Rows of many tables and a few numbers, one behind the other: columns of one tensor."""

    def layer(ids: Tensor, numbers: Tensor, *tables: Tensor) -> Tensor:
        return torch.cat([*(F.embedding(ids[:, n], table) for n, table in enumerate(tables)), numbers], 1)

    torch.manual_seed(0)
    tables = [torch.randn(50, 16) for _ in range(20)]
    ids, numbers = torch.randint(0, 50, (130, 20)), torch.randn(130, 9)
    torch._dynamo.reset()
    found = torch.compile(layer, backend="cuesta", options={"target": "tt", "cache": False})(ids, numbers, *tables)
    assert torch.equal(found, layer(ids, numbers, *tables))


def test_parts_of_a_widened_tensor() -> None:
    def layer(x: Tensor) -> Tensor:
        return torch.cat([part.float() for part in (x @ x.T).split(16, 1)[::-1]])

    x = torch.randn(64, 64).bfloat16()
    torch._dynamo.reset()
    found = torch.compile(layer, backend="cuesta", options={"target": "tt", "cache": False})(x)
    torch.testing.assert_close(found, layer(x), rtol=2e-2, atol=2e-1)


def test_sums_over_a_prime_number_of_rows() -> None:
    """Gradients of a layer that so many edges of a graph go through: a product, and a sum."""

    def gradients(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return g.T @ x, g.float().sum(0)

    g, x = torch.randn(4099, 16).bfloat16(), torch.randn(4099, 12).bfloat16()
    torch._dynamo.reset()
    options = {"target": "tt", "cache": False, "gemm": "kernel"}
    found = torch.compile(gradients, backend="cuesta", options=options)(g, x)
    wanted = [y.float() for y in gradients(g.double(), x.double())]
    torch.testing.assert_close([y.float() for y in found], wanted, rtol=1e-2, atol=0.1)
