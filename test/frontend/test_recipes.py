"""The import rule of docs/adding_an_op.md is right as it stands there, also for a narrow type."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.frontend.aten import pointwise
from cuesta.frontend.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "adding_an_op.md"


def test_the_import_rule(monkeypatch: pytest.MonkeyPatch, matches_eager: Callable[..., Any]) -> None:
    (code,) = re.findall(r"```python\n(@imports.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.delitem(RULES, "aten.addcmul")
    exec(code, vars(pointwise).copy())
    x, y, z = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    run = matches_eager(lambda x, y, z: torch.addcmul(x, y, z, value=0.3), x, y, z, atol=0, rtol=0)
    assert not run.reasons()
