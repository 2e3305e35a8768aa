"""When the processes that run Triton are started."""

from __future__ import annotations

import pytest

from cuesta.driver.late import kernel_code
from cuesta.errors import CompileError
from cuesta.targets import Target, parse_target


def test_they_start_before_a_graph_for_a_gpu_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Target] = []
    monkeypatch.setattr(kernel_code, "warm_up", started.append)
    for name in ("cpu", "tt", "cuda:90"):
        kernel_code.prepare(parse_target(name))
    assert started == [parse_target("cuda:90")]


def test_without_triton_nothing_is_said_before_there_is_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(target: Target) -> None:
        raise CompileError("no Triton")

    monkeypatch.setattr(kernel_code, "warm_up", missing)
    kernel_code.prepare(parse_target("cuda:90"))
