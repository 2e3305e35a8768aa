"""What AOTAutograd's partitioner gives on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.driver.memory import step_memory


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
