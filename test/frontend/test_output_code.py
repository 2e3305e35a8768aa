"""What torch keeps of compiled graphs: aot_compile's files, and AOTAutograd's cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import cuesta


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


def test_a_function_compiled_ahead_of_time_is_loaded(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    with saved(f, x, tmp_path / "f").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    torch.testing.assert_close(loaded(x), f(x))
    with pytest.raises(RuntimeError, match="[Gg]uard"):
        loaded(torch.randn(5, 4))


def test_training_is_kept_too(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    with saved(f, x.clone().requires_grad_(), tmp_path / "f").open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    torch.testing.assert_close(gradient(loaded, x), gradient(f, x))
    assert [graph.name for graph in cuesta.report().graphs[-2:]] == ["forward", "backward"]


PROGRAM = """
import sys, torch
sys.modules["cuesta.frontend.compile"] = None  # nothing is compiled
torch.set_num_threads(int(sys.argv[2]))  # torch guards on it
with open(sys.argv[1], "rb") as file:
    loaded = torch.compiler.load_compiled_function(file)
x = torch.ones(3, 4)
torch.testing.assert_close(loaded(x), (x.sin() + 1).softmax(-1))
"""


def test_another_process_loads_it_without_compiling(tmp_path: Path) -> None:
    path = saved(f, torch.ones(3, 4), tmp_path / "f")
    command = [sys.executable, "-c", PROGRAM, path, str(torch.get_num_threads())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
        assert "torch kept it" in compile_and_train(model)
        assert counters["aot_autograd"]["autograd_cache_hit"] == 1
        # Torch's key does not tell compilers and their options apart: ours does.
        assert compile_and_train(model, fusion=False) == "the cache is off"
    assert compile_and_train(model) == "the cache is off"


def test_a_graph_in_pieces_is_not_kept_and_right() -> None:
    def branch(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,)) * 2

    x = torch.randn(3, 4)
    with torch._functorch.config.patch(bundled_autograd_cache=True):
        for _ in range(2):
            torch._dynamo.reset()
            torch.testing.assert_close(torch.compile(branch, backend="cuesta")(x), branch(x))
    assert not counters["aot_autograd"]["autograd_cache_hit"]
