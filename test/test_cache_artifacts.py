"""torch.compiler.save_cache_artifacts and load_cache_artifacts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torch import Tensor
from torch.compiler._cache import CacheArtifactManager

import cuesta
from cuesta import cache_artifacts


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_artifacts, "_LOADED", {})
    # AOTAutogradCache would answer before our cache does.
    with CacheArtifactManager.with_fresh_cache(), torch._functorch.config.patch(enable_autograd_cache=False):
        yield
    torch._dynamo.reset()


def f(x: Tensor) -> Tensor:
    return (x.sin() + 1).softmax(-1)


def compile_and_run() -> tuple[bool, str]:
    """Whether the graph was in a cache, and the reason given."""
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="cuesta")(x), f(x))
    (graph,) = cuesta.report().graphs
    return graph.cache["hit"], graph.cache["reason"]


PROGRAM = """
import sys, torch, cuesta
info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
assert len(info.cuesta_artifacts) == 1, info
sys.modules["cuesta.driver.lower"] = None  # nothing is compiled
def f(x):
    return (x.sin() + 1).softmax(-1)
x = torch.randn(3, 4)
torch.testing.assert_close(torch.compile(f, backend="cuesta")(x), f(x))
print(cuesta.report().graphs[0].cache["reason"])
"""


def test_another_process_compiles_nothing(tmp_path: Path, forked: Callable[..., CompletedProcess[str]]) -> None:
    assert not compile_and_run()[0]
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None and len(saved[1].artifacts["cuesta"]) == 1
    (tmp_path / "artifacts").write_bytes(saved[0])
    done = forked(PROGRAM, tmp_path / "artifacts", environment={**os.environ, "CUESTA_CACHE_DIR": ""})
    assert done.returncode == 0 and "load_cache_artifacts" in done.stdout, done.stderr


def test_what_the_disk_cache_had_is_saved_and_what_was_loaded_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compile_and_run()
    with CacheArtifactManager.with_fresh_cache():
        assert compile_and_run() == (True, "the same graph was compiled before")
        saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "other"))
    assert torch.compiler.load_cache_artifacts(saved[0]) is not None
    hit, reason = compile_and_run()
    assert hit and "load_cache_artifacts" in reason
    monkeypatch.setattr(cache_artifacts, "_LOADED", {})
    assert compile_and_run() == (True, "the same graph was compiled before")


def test_damaged_artifacts_are_compiled_anew() -> None:
    compile_and_run()
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    torch.compiler.load_cache_artifacts(saved[0])
    (key,) = cache_artifacts._LOADED
    cache_artifacts._LOADED[key] = b"damaged"
    hit, reason = compile_and_run()
    assert not hit and "does not load" in reason
