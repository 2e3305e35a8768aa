"""The line that an error of a program names: its caller's, whoever compiled the program first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.errors import ExecutionError
from cuesta.frontend.source_lines import by_number, frame_of, in_lines_of, numbers_of, without_lines


def first(x: Tensor) -> Any:
    return torch.ops.aten.linalg_cholesky_ex(x * 2, check_errors=True)


def second(x: Tensor) -> Any:
    y = x * 2
    return torch.ops.aten.linalg_cholesky_ex(y, check_errors=True)


def line_of(f: Callable[..., Any], below: int) -> str:
    return f"{__file__}:{f.__code__.co_firstlineno + below}"


def error_of(f: Callable[..., Tensor], **options: Any) -> str:
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="cuesta", **options)
    compiled(torch.eye(3))  # around the first call torch looks at each op in Python, where an error is Python's
    with pytest.raises(ExecutionError) as caught:
        compiled(-torch.eye(3))
    return str(caught.value)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_program_of_the_cache_names_the_callers_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dynamic: bool
) -> None:
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    for f, below, hit in ((first, 1, False), (second, 2, True), (first, 1, True)):
        assert f"({line_of(f, below)})" in error_of(f, dynamic=dynamic)
        (graph,) = cuesta.report().graphs
        assert graph.cache["hit"] == hit
        assert [call["where"] for call in graph.aten_calls] == [line_of(f, below)]


def metadata(*origins: dict[str, Any]) -> Any:
    steps = [*({"kind": "call", **origin} for origin in origins), {"kind": "check", "message": ""}]
    return {"program": {"steps": steps}, "report": {"aten_calls": []}}


def test_steps_are_numbered_by_the_nodes_that_made_them() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x.sin().cos())
    sin, _ = (node for node in gm.graph.nodes if node.op == "call_method")
    made = metadata({"where": "a.py:1", "node": "cos"}, {"where": "a.py:2", "node": "sin"}, {"where": "", "node": ""})
    by_number(made, numbers_of(gm))
    assert [step.get("node") for step in made["program"]["steps"]] == [2, 1, None, None]
    sin.meta["stack_trace"] = '  File "b.py", line 3, in g\n    f(x)\n  File "c.py", line 4, in f\n    x.sin()'
    in_lines_of(made, gm)
    assert [step.get("where") for step in made["program"]["steps"]] == ["cos", "c.py:4", "", None]
    without_lines(made)
    assert [step.get("where") for step in made["program"]["steps"]] == ["", "", "", None]


@pytest.mark.parametrize("trace", [None, "", "no frame", 'File "cut off', 'File "a.py", line x, in f'])
def test_what_has_no_line(trace: str | None) -> None:
    node = next(iter(torch.fx.symbolic_trace(lambda x: x.sin()).graph.nodes))
    node.meta["stack_trace"] = trace
    assert frame_of(node) is None
