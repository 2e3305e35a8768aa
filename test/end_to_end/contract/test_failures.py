"""Failures and limits (contract, points 11 and 12)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, SkipFrame
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

import cuesta
from cuesta.driver import compile_graph
from cuesta.errors import CompileError


def f(x: Tensor) -> Tensor:
    return torch.sin(x) * 2


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every compile fail."""

    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(compile_graph, "look_up", broken)


def test_a_failure_carries_the_message(monkeypatch: pytest.MonkeyPatch, cuesta_only: None) -> None:
    fail_with(CompileError("what went wrong"), monkeypatch)
    with pytest.raises(BackendCompilerFailed, match="what went wrong") as caught:
        torch.compile(f, backend="cuesta")(torch.randn(3))
    assert isinstance(caught.value.inner_exception, CompileError)


def test_suppressed_errors_run_eagerly(monkeypatch: pytest.MonkeyPatch, cuesta_only: None) -> None:
    fail_with(CompileError("what went wrong"), monkeypatch)
    x = torch.randn(3)
    with torch._dynamo.config.patch(suppress_errors=True):
        assert_close(torch.compile(f, backend="cuesta")(x), f(x))


def test_a_skipped_frame_runs_eagerly(monkeypatch: pytest.MonkeyPatch, cuesta_only: None) -> None:
    fail_with(SkipFrame("not this one"), monkeypatch)
    x = torch.randn(3)
    assert_close(torch.compile(f, backend="cuesta")(x), f(x))


def test_what_failed_once_compiles_after_a_reset(cuesta_only: None) -> None:
    x = torch.randn(3)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(BackendCompilerFailed):
        fail_with(CompileError("what went wrong"), patch)
        torch.compile(f, backend="cuesta")(x)
    torch._dynamo.reset()
    assert cuesta.report().graphs == []
    assert_close(torch.compile(f, backend="cuesta")(x), f(x))
    assert len(cuesta.report().graphs) == 1


def scaled(x: Tensor, factor: str) -> Tensor:
    return x * len(factor)


def test_the_limit_of_recompiles(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(scaled, backend=counter)
    x = torch.randn(3)
    with torch._dynamo.config.patch(recompile_limit=3):
        for n in range(1, 7):
            assert_close(compiled(x, "a" * n), x * n)
    assert counter.frame_count == 3


def test_the_limit_as_an_error(backend: str) -> None:
    compiled = torch.compile(scaled, backend=backend)
    x = torch.randn(3)
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled(x, "a")
        with pytest.raises(FailOnRecompileLimitHit):
            compiled(x, "ab")


def test_stances(backend: str) -> None:
    compiled, x = torch.compile(f, backend=backend), torch.randn(3)
    with torch.compiler.set_stance("force_eager"):
        assert_close(compiled(x), f(x))
        assert cuesta.report().graphs == []
    compiled(x)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="recompile"):
        compiled(x.double())


def test_logs_of_breaks_and_recompiles(backend: str) -> None:
    def broken_up(x: Tensor) -> Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return y * 2

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    texts: list[str] = []
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    loggers = [
        logging.getLogger(f"torch._dynamo.{name}")
        for name in ("symbolic_convert.__graph_breaks", "guards.__recompiles")
    ]
    handler = Kept()
    for logger in loggers:
        logger.addHandler(handler)
    try:
        compiled = torch.compile(broken_up, backend=backend)
        compiled(torch.randn(3))
        compiled(torch.randn(3, dtype=torch.float64))
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        torch._logging.set_logs()
    said = "\n".join(texts)
    assert "Graph break" in said
    assert "Recompiling function broken_up" in said
