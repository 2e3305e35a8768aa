"""Tests that the way from torch.compile's backend to the first MLIR pass is the one that docs/architecture.md draws."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import cuesta
from cuesta import torch_versions
from cuesta.passes.infra.pipeline import Pipeline

ROOT = Path(cuesta.__file__).resolve().parent.parent


def _ours() -> list[str]:
    """The functions of cuesta on the stack, outermost first, as `module.function`, without decorators' wrappers."""
    frame: Any = sys._getframe(2)
    elsewhere = {".venv", ".matrix", "test"}
    names = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_absolute() and path.resolve().is_relative_to(ROOT) and not elsewhere & set(path.parts):
            names.append(f"{path.stem}.{frame.f_code.co_qualname.replace('.<locals>', '')}")
        frame = frame.f_back
    return names[::-1]


@pytest.mark.skipif(torch_versions.is_untested(), reason="with a newer torch there is one hop more: newer_torch.py")
def test_six_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []
    run = Pipeline.run

    def noted(self: Pipeline, *arguments: Any, **keywords: Any) -> None:
        found.append([*_ours(), "pipeline.Pipeline.run"])
        run(self, *arguments, **keywords)

    monkeypatch.setattr(Pipeline, "run", noted)
    torch._dynamo.reset()
    torch.compile(lambda x: x.exp() + 1, backend="cuesta", options={"cache": False})(torch.randn(8))
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("## From torch.compile to the first pass")[2].partition("\n## ")[0]
    drawn = re.findall(r"^\d\. `([a-z_]+\.py)`.*?`([A-Za-z_.]+)`", section, re.MULTILINE)
    assert [f"{file.removesuffix('.py')}.{function}" for file, function in drawn] == found[0]
    assert len(found[0]) - 1 <= 6
