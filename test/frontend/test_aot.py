"""What AOTAutograd's partitioner gives on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.frontend import step_memory


def test_no_python_is_made_of_graphs_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    partition = step_memory.partition

    def keep(*args: Any, **kwargs: Any) -> Any:
        seen.extend(partition(*args, **kwargs))
        return seen

    monkeypatch.setattr(step_memory, "partition", keep)
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: x.sin().exp().sum(), backend="cuesta")(x).backward()
    assert len(seen) == 2 and all(type(gm)._needs_recompile() for gm in seen)
    (gradient,) = seen[1](
        *(node.meta["val"].new_ones(node.meta["val"].shape) for node in seen[1].graph.find_nodes(op="placeholder"))
    )
    assert gradient.shape == (3,) and "def forward" in seen[1].code


def test_a_detached_value_is_not_saved_for_its_own_sake() -> None:
    """relu's gradient reads its result detached; it is recomputed from what the product before it left."""
    weight = torch.randn(64, 64, requires_grad=True)
    saved: list[torch.Size] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.shape)
        return tensor

    def scaled(x: torch.Tensor) -> torch.Tensor:
        y = ((x @ weight).cos() + 0.5).relu()
        return (y * y.mean(1, keepdim=True)).sin() @ weight

    compiled = torch.compile(scaled, backend="cuesta")
    x = torch.randn(32, 64)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        found = compiled(x)
    torch.testing.assert_close(found, scaled(x))
    found_grad, *_ = torch.autograd.grad(found.sum(), [weight])
    expected, *_ = torch.autograd.grad(scaled(x).sum(), [weight])
    torch.testing.assert_close(found_grad, expected)
    # The first product; x and what the second one multiplies are saved as their gradients read them, [64, 32].
    assert saved.count(torch.Size([32, 64])) == 1
