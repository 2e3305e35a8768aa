"""Graphs with streams inside, as Dynamo and AOTAutograd hand them over: what runs on which, and in which order.

A CPU has no streams: some that keep a log stand for a GPU's. test/end_to_end/contract/test_on_a_gpu.py has real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import graph_bytecode_inputs
from torch._functorch._aot_autograd import streams as torchs
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from cuesta.driver.calling import Boxed
from cuesta.driver.pieces import in_pieces
from cuesta.frontend.capture.streams import unwrap_waits, uses_streams
from cuesta.frontend.fx_passes.common_subexpressions import merge_equal_nodes
from cuesta.frontend.python_steps import python_steps
from cuesta.torch_versions import installed

Log = list[tuple[Any, ...]]
Marks = dict[str, int]


class LoggingStream(torch.Stream):
    """A stream by name, which tells what is done with it."""

    log: Log
    current: list[str]
    name: str

    def __enter__(self) -> None:
        self.current.append(self.name)

    def __exit__(self, *_: object) -> None:
        self.current.pop()

    def wait_stream(self, other: torch.Stream) -> None:
        assert isinstance(other, LoggingStream)
        self.log.append((f"{self.name} waits for {other.name}",))


class Run:
    """Runs functions in pieces, with the streams 0, `main`, and 1, `side`."""

    def __init__(self, streams: dict[str, LoggingStream], log: Log, current: list[str]) -> None:
        self.streams, self.log, self.current = streams, log, current

    def __call__(self, gm: GraphModule, *inputs: Tensor) -> list[Any]:
        def interpret(piece: GraphModule, name: str) -> Boxed:
            assert not uses_streams(piece), "it would be cut again, for ever"
            ops = [n.target.overloadpacket.__name__ for n in piece.graph.nodes if n.op == "call_function"]

            def run(args: list[Any]) -> list[Any]:
                self.log.append((self.current[-1], *ops))
                return list(piece(*args))

            return run

        unwrap_waits(gm)
        return in_pieces(gm, python_steps(gm), interpret)(list(inputs))


@pytest.fixture
def run() -> Iterator[Run]:
    log: Log = []
    current = ["current"]
    streams = {}
    for number, name in enumerate(("main", "side")):
        streams[name] = LoggingStream(stream_id=number, device_index=0, device_type=1)
        streams[name].name, streams[name].log, streams[name].current = name, log, current
    graph_bytecode_inputs.store_user_object_weakrefs(*streams.values())
    yield Run(streams, log, current)
    graph_bytecode_inputs.reset_user_object_tracking()


def traced(function: Callable[..., Any], *inputs: Tensor, side: tuple[str, ...] = ()) -> GraphModule:
    """An ATen graph in which the ops of these names are on the stream 1."""
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    for node in gm.graph.nodes:
        if node.op == "call_function" and str(node.target).split(".")[1] in side:
            node.meta["custom"] = {"stream": 1}
    return gm


def wait(waiting: int, other: int) -> None:
    torch.ops.streams.wait_stream.default(waiting, other)


def test_each_piece_runs_on_its_stream(run: Run) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin().exp()
        return y + 1, x.cos()

    x = torch.randn(3)
    results = run(traced(f, x, side=("sin", "exp")), x)
    assert_close(results, list(f(x)))
    assert run.log == [("side", "sin", "exp"), ("current", "add", "cos")]


def test_views_belong_to_who_reads_them(run: Run) -> None:
    def f(x: Tensor) -> tuple[Tensor]:
        return (x.sin().t().exp(),)

    x = torch.randn(3, 2)
    assert_close(run(traced(f, x, side=("sin", "exp")), x), list(f(x)))
    assert run.log == [("side", "sin", "t", "exp")]


def with_waits(x: Tensor) -> tuple[Tensor]:
    y = x * 2
    wait(1, 0)
    z = y.sin()
    wait(0, 1)
    return (z + y,)


WAITS: Log = [
    ("current", "mul"),
    ("side waits for main",),
    ("side", "sin"),
    ("main waits for side",),
    ("current", "add"),
]


def waiting_graph(x: Tensor, run: Run) -> GraphModule:
    gm = traced(with_waits, x, side=("sin",))
    run.log.clear()  # tracing waits, too
    return gm


def test_waits_stay_where_they_are(run: Run) -> None:
    x = torch.randn(3)
    assert_close(run(waiting_graph(x, run), x), [x * 2 + (x * 2).sin()])
    assert run.log == WAITS


@pytest.mark.skipif(installed() < (2, 13), reason="torch 2.11 does not wrap them, 2.12 not these")
def test_so_do_those_that_torch_hands_tensors_through(run: Run) -> None:
    x = torch.randn(3)
    gm = waiting_graph(x, run)
    torchs.wrap_all_sync_nodes_with_control_deps(gm)
    assert "control_deps" in gm.code
    assert_close(run(gm, x), [x * 2 + (x * 2).sin()])
    assert run.log == WAITS
    assert "control_deps" not in gm.code


def test_equal_nodes_on_two_streams_are_two() -> None:
    gm = traced(lambda x: (x.sin() + 1, x.sin() + 2, x.sin() + 3), torch.randn(3))
    first = next(n for n in gm.graph.nodes if n.target is torch.ops.aten.sin.default)
    first.meta["custom"] = {"stream": 1}
    merge_equal_nodes(gm.graph)
    assert len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)) == 2
