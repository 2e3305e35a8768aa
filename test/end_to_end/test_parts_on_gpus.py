"""Launches that write parts of one tensor, of which one kernel is made on a GPU, in tt's interpreter."""

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
