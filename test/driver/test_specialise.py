"""Graphs with symbolic sizes as those of certain sizes."""

from __future__ import annotations

from threading import Event, Thread

import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.testing import assert_close

from cuesta.driver import specialise


def test_modules_are_left_alone_while_another_thread_calls_them() -> None:
    """Dynamo guards on nn.Module's methods, and other threads call modules, whatever is compiled meanwhile."""
    seen: list[object] = []
    running, done = Event(), Event()

    def watch() -> None:
        running.set()
        while not done.is_set():
            seen.append(nn.Module.__call__)

    before = nn.Module.__call__
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * 2, backend="cuesta", dynamic=True)
    compiled(torch.randn(3, 4))
    thread = Thread(target=watch)
    thread.start()
    running.wait()
    try:
        for n in range(4, 8):
            x = torch.randn(n, 5)
            assert_close(compiled(x), torch.softmax(x, -1) * 2)
    finally:
        done.set()
        thread.join()
    assert set(seen) == {before}


def test_sizes_become_numbers() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(gm: torch.fx.GraphModule, _: object) -> object:
        plain = specialise._with_numbers(gm, [arguments[0].shape[0], *arguments])
        graphs.append(plain)
        return gm

    def f(x: Tensor, y: Tensor) -> Tensor:
        first, second = (x.view(x.shape[0] * 3) * x.shape[0]).split([x.shape[0], 2 * x.shape[0]])
        return torch.cat([first, second * 2, y])

    arguments = (torch.randn(4, 3), torch.randn(2))
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(arguments[0], 0)
    torch.compile(f, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(*arguments)
    (plain,) = graphs
    assert_close(plain(4, *arguments)[0], f(*arguments))
    for node in plain.graph.nodes:
        assert "Sym" not in str(node.args)
        if isinstance(node.meta.get("val"), Tensor):
            assert all(type(n) is int for n in node.meta["val"].shape)
