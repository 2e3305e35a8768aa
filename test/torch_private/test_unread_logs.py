"""What torch writes for logs alone is written where somebody asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch._dynamo import funcname_cache, guards, output_graph
from torch._functorch._aot_autograd import graph_compile


def exponential(x: Tensor) -> Tensor:
    return x.exp() * 2


def sine(x: Tensor) -> Tensor:
    return x.sin() * 2


def compile_anew(requires_grad: bool) -> None:
    """Two graphs: a reset forgets what is done as Dynamo begins, and the first says it again."""
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=requires_grad)
    torch.compile(exponential, backend="cuesta")(x)
    funcname_cache.clearcache()
    torch.compile(sine, backend="cuesta")(x)


@contextmanager
def listening(log: logging.Logger, level: int) -> Iterator[None]:
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


@pytest.mark.parametrize("log", [graph_compile.aot_joint_log, graph_compile.aot_graphs_log])
def test_graphs_are_printed_for_a_log(monkeypatch: pytest.MonkeyPatch, log: logging.Logger) -> None:
    printed = []
    print_graph = torch.fx.GraphModule.print_readable
    monkeypatch.setattr(
        torch.fx.GraphModule, "print_readable", lambda gm, *a, **k: printed.append(gm) or print_graph(gm, *a, **k)
    )
    functions = vars(graph_compile).copy()
    for requires_grad in (True, False):
        compile_anew(requires_grad)
    assert printed == []
    with listening(log, logging.INFO):
        compile_anew(requires_grad=True)
    assert len(printed) >= 6  # a joint graph, a forward and a backward one of each
    assert vars(graph_compile) == functions


def test_source_files_are_read_for_a_log() -> None:
    compile_anew(requires_grad=False)
    assert __file__ not in funcname_cache.cache
    with listening(output_graph.trace_call_log, logging.DEBUG):
        compile_anew(requires_grad=False)
    assert funcname_cache.cache[__file__]


def test_guards_are_timed_for_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = []
    monkeypatch.setattr(guards, "profile_guard_manager", lambda *_: timed.append(True) or 0.0)
    compile_anew(requires_grad=False)
    timed.clear()  # the first graph behind a reset is begun before we are told
    compile_anew(requires_grad=False)
    assert len(timed) == 1
    with listening(guards.guards_log, logging.DEBUG):
        compile_anew(requires_grad=False)
    assert len(timed) == 3
