"""What torch keeps of compiled graphs: aot_compile's files, and AOTAutograd's cache."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import aot_autograd_result, graph_compile

import cuesta
from cuesta.cache import open_cache
from cuesta.driver.cache import output_code
from cuesta.torch_versions import installed

AOT_COMPILE = pytest.mark.skipif(installed() < (2, 12), reason="torch 2.11 compiles no functions ahead of time")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    counters.clear()
    yield
    torch._dynamo.reset()


def f(x: Tensor) -> Tensor:
    return (x.sin() + 1).softmax(-1)


def gradient(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (run(x) * x).sum().backward()
    assert x.grad is not None
    return x.grad


def saved(function: Callable[..., Any], x: Tensor, path: Path) -> Path:
    compiled = torch.compile(function, backend="cuesta", fullgraph=True).aot_compile(((x,), {}))
    torch.testing.assert_close(compiled(x), function(x))
    compiled.save_compiled_function(str(path))
    return path


@AOT_COMPILE
def test_a_function_compiled_ahead_of_time_is_loaded(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    with saved(f, x, tmp_path / "f").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    torch.testing.assert_close(loaded(x), f(x))
    with pytest.raises(RuntimeError, match="[Gg]uard"):
        loaded(torch.randn(5, 4))


@AOT_COMPILE
def test_training_is_kept_too(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    with saved(f, x.clone().requires_grad_(), tmp_path / "f").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    torch.testing.assert_close(gradient(loaded, x), gradient(f, x))
    assert [graph.name for graph in cuesta.report().graphs[-2:]] == ["forward", "backward"]


#: Runs a program in a process of its own.
Forked = Callable[..., CompletedProcess[str]]

PROGRAM = """
import sys, torch
sys.modules["cuesta.driver.lower"] = None  # nothing is compiled
torch.set_num_threads(int(sys.argv[2]))  # torch guards on it
with open(sys.argv[1], "rb") as file:
    loaded = torch.compiler.load_compiled_function(file)
x = torch.ones(3, 4)
torch.testing.assert_close(loaded(x), (x.sin() + 1).softmax(-1))
"""


@AOT_COMPILE
def test_another_process_loads_it_without_compiling(tmp_path: Path, forked: Forked) -> None:
    path = saved(f, torch.ones(3, 4), tmp_path / "f")
    done = forked(PROGRAM, path, str(torch.get_num_threads()))
    assert done.returncode == 0, done.stderr


def compile_and_train(model: nn.Module, **options: Any) -> str:
    """Compiles, compares with eager, and gives what the report says of where the first graph came from."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="cuesta", options={"cache": False, **options})
    x = torch.randn(3, 4)
    torch.testing.assert_close(gradient(compiled, x), gradient(model, x))
    reason: str = cuesta.report().graphs[0].cache["reason"]
    return reason


def test_autograds_cache_keeps_programs_where_it_bundles_them() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4))
    with torch._functorch.config.patch(bundled_autograd_cache=True):
        assert compile_and_train(model) == "the cache is off"
        assert counters["aot_autograd"]["autograd_cache_saved"] == 1
        assert "torch kept" in compile_and_train(model)
        assert counters["aot_autograd"]["autograd_cache_hit"] == 1
        # Torch's key does not tell compilers and their options apart: ours does.
        assert compile_and_train(model, fusion=False) == "the cache is off"
    assert compile_and_train(model) == "the cache is off"


WARM = """
import sys, torch, torch._functorch.aot_autograd
import cuesta
from cuesta.driver.cache import output_code
output_code.WORTH_KEEPING = 0
def f(x, w):
    return torch.nn.functional.gelu(x @ w).softmax(-1)
w = torch.ones(4, 4, requires_grad=True)
x = torch.arange(12.0).reshape(3, 4)
if sys.argv[1] == "warm":
    sys.modules["cuesta._mlir"] = None  # nothing is compiled, nothing is traced again:
    torch._functorch.aot_autograd.aot_stage1_graph_capture = None
(torch.compile(f, backend="cuesta", fullgraph=True)(x, w) * x).sum().backward()
compiled, w.grad = w.grad, None
(f(x, w) * x).sum().backward()
torch.testing.assert_close(compiled, w.grad)
assert not torch._functorch.config.bundled_autograd_cache
print([(graph.name, graph.cache["hit"]) for graph in cuesta.report().graphs])
"""


def test_a_warm_process_does_not_trace_again(tmp_path: Path, forked: Forked) -> None:
    folders = {"CUESTA_CACHE_DIR": str(tmp_path / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch")}
    for state, hit in (("cold", False), ("warm", True)):
        done = forked(WARM, state, environment={**os.environ, **folders})
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str([("forward", hit), ("backward", hit)])


def hits() -> tuple[int, int]:
    """AOTAutogradCache's hits, and what it has kept."""
    return counters["aot_autograd"]["autograd_cache_hit"], counters["aot_autograd"]["autograd_cache_saved"]


@pytest.fixture
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_code, "WORTH_KEEPING", 0)


@pytest.mark.usefixtures("small_ones_too")
def test_autograds_cache_works_with_ours(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    ours = {"cache": True, "cache_dir": tmp_path / "ours"}
    compile_and_train(model, **ours)
    assert hits() == (0, 1)
    assert "torch kept" in compile_and_train(model, **ours)
    assert hits() == (1, 1)
    # Torch's entry leads to a program that is gone: it is compiled, and found again after that.
    assert open_cache(tmp_path / "ours").clear() is None
    assert compile_and_train(model, **ours).startswith("no entry")
    assert "torch kept" in compile_and_train(model, **ours)
    assert hits() == (2, 1)


def test_a_small_graph_is_not_worth_torchs_key(tmp_path: Path) -> None:
    for _ in range(2):
        reason = compile_and_train(nn.Linear(4, 4), cache=True, cache_dir=tmp_path / "ours")
    assert hits() == (0, 0) and reason == "the same graph was compiled before"
    deep = nn.Sequential(*[nn.ReLU() for _ in range(output_code.WORTH_KEEPING)])
    compile_and_train(deep, cache=True, cache_dir=tmp_path / "ours")
    assert hits() == (0, 1)


@pytest.mark.usefixtures("small_ones_too")
def test_nothing_is_kept_by_torch_where_it_is_not_to_be(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    compile_and_train(model)  # without our cache
    compile_and_train(model, cache=True, cache_dir=tmp_path / "ours", dump=tmp_path / "dump")
    with torch._functorch.config.patch(enable_autograd_cache=False):
        compile_and_train(model, cache=True, cache_dir=tmp_path / "ours")
    assert hits() == (0, 0)


@pytest.mark.usefixtures("small_ones_too")
def test_a_switch_that_decides_what_is_traced_has_entries_of_its_own(tmp_path: Path) -> None:
    def attend(x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)

    def run() -> str:
        torch._dynamo.reset()
        x = torch.randn(1, 2, 8, 16)
        options = {"cache_dir": tmp_path / "ours"}
        torch.testing.assert_close(torch.compile(attend, backend="cuesta", options=options)(x), attend(x))
        return str(cuesta.report().graphs[0].cache["reason"])

    run()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        run()
    assert hits() == (0, 2)
    assert "torch kept" in run()


@pytest.mark.skipif(installed() < (2, 12), reason="torch 2.11 has the logs in other modules")
@pytest.mark.usefixtures("small_ones_too")
def test_a_log_that_is_asked_for_has_its_graphs_from_a_cache_filled_without_it(tmp_path: Path) -> None:
    texts: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    def logged() -> list[str]:
        """The headings of the graphs that a log gets."""
        log, listener = graph_compile.aot_graphs_log, Listener()
        loggers = [log, aot_autograd_result.aot_graphs_log]
        before = [logger.level for logger in loggers]
        texts.clear()
        for logger in loggers:
            logger.setLevel(logging.INFO)
            logger.addHandler(listener)
        try:
            compile_and_train(model, cache_dir=tmp_path, cache=True)
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.removeHandler(listener)
                logger.setLevel(level)
        return [
            found for text in texts for found in re.findall(r"(?:Forward|Backward) graph(?: \(from cache\))?", text)
        ]

    model = nn.Linear(4, 4)
    compile_and_train(model, cache_dir=tmp_path, cache=True)
    assert logged() == ["Forward graph", "Backward graph"]
    assert logged() == ["Forward graph (from cache)", "Backward graph (from cache)"]
    compile_and_train(model, cache_dir=tmp_path, cache=True)
    assert hits() == (2, 2)


def test_a_graph_in_pieces_is_not_kept_and_right() -> None:
    def branch(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,)) * 2

    x = torch.randn(3, 4)
    with torch._functorch.config.patch(bundled_autograd_cache=True):
        for _ in range(2):
            torch._dynamo.reset()
            torch.testing.assert_close(torch.compile(branch, backend="cuesta")(x), branch(x))
    assert not counters["aot_autograd"]["autograd_cache_hit"]
