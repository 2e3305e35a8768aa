"""The collector of cyclic garbage is held back while a graph is compiled, and no longer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
import torch

from cuesta import collector
from cuesta.collector import held_back
from cuesta.driver import make_program


def test_blocks_nest_and_the_last_lets_go() -> None:
    with held_back():
        with held_back():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


class Ring:
    """Garbage that only the collector finds, once it is dropped."""

    def __init__(self) -> None:
        self.self = self


def test_what_a_block_leaves_is_old_without_a_look() -> None:
    with held_back():
        left = [[] for _ in range(5000)]
        left[0].append(left)
        dropped = weakref.ref(Ring())
    old = {id(x) for x in gc.get_objects(generation=2)}
    assert id(left) in old and id(left[-1]) in old
    assert dropped() is not None
    gc.collect()
    assert dropped() is None


def test_what_many_blocks_leave_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MOST_LEFT", 10_000)
    monkeypatch.setattr(collector._holders, "left", 0)
    kept, dropped = [], []
    for _ in range(5):
        with held_back():
            kept.append([[] for _ in range(3000)])
            dropped.append(weakref.ref(Ring()))
    assert [ring() is None for ring in dropped] == [True] * 4 + [False]


def test_what_a_failure_leaves_is_gone_through() -> None:
    with pytest.raises(KeyError), held_back():
        dropped = weakref.ref(Ring())
        raise KeyError
    assert dropped() is None


def test_what_is_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with held_back():
            dropped = weakref.ref(Ring())
        assert gc.get_freeze_count() > 0
        assert dropped() is None
    finally:
        gc.unfreeze()


def test_an_error_lets_go() -> None:
    with pytest.raises(KeyError), held_back():
        raise KeyError
    assert gc.isenabled()


def test_who_has_no_collector_gets_none() -> None:
    gc.disable()
    try:
        with held_back():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_compiled_function_is_called_with_the_collector_at_work() -> None:
    assert torch.compile(lambda x: x.exp(), backend="cuesta")(torch.zeros(2)).tolist() == [1, 1]
    assert gc.isenabled()


def test_it_is_held_back_while_either_graph_of_a_training_step_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    place = make_program.place_graph
    monkeypatch.setattr(make_program, "place_graph", lambda *args: seen.append(gc.isenabled()) or place(*args))
    x = torch.ones(3, requires_grad=True)
    loss = torch.compile(lambda x: x.exp().sum(), backend="cuesta")(x)
    assert gc.isenabled()
    loss.backward()
    assert seen == [False, False] and gc.isenabled()


def test_it_is_held_back_while_dynamo_traces() -> None:
    seen = []
    for _ in range(2):  # a reset forgets it, and the next graph says it again
        torch.compile(lambda x: x.exp(), backend="cuesta")(torch.zeros(2))
        torch._dynamo.on_compile_start(lambda _: seen.append(gc.isenabled()))
        torch.compile(lambda x: x.sin(), backend="cuesta")(torch.zeros(2))
        assert gc.isenabled()
        torch._dynamo.reset()
    assert seen == [False, False]


def test_it_is_held_back_from_dynamos_first_frame_on(forked: Callable[..., CompletedProcess[str]]) -> None:
    code = """
import gc, torch
f = torch.compile(lambda x: x.exp(), backend="cuesta")
torch._dynamo.on_compile_start(lambda _: print(gc.isenabled()))
f(torch.zeros(2))
print(gc.isenabled())
"""
    run = forked(code)
    assert run.stdout.split() == ["False", "True"], run.stderr
