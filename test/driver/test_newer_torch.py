"""With a torch that is newer than any that was tested: one warning, and what cannot be compiled runs op by op.

Each case is a process of its own, because names are imported once in a process. It has loaded torch, and not cuesta.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
import torch

from cuesta import torch_versions

#: Trains a step and says what became of it. {lose} takes something away from torch.
PROGRAM = """
import torch, torch._dynamo, torch._functorch.aot_autograd
torch.compiler.list_backends()  # loads what torch itself needs of the names below
{lose}
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
x = torch.randn(4, 8)
wanted = model(x)
compiled = torch.compile(model, backend="cuesta")
found = compiled(x)
torch.testing.assert_close(found, wanted)
found.sum().backward()
torch.testing.assert_close(model[0].bias.grad, torch.autograd.grad(model(x).sum(), model[0].bias)[0])
compiled(torch.randn(5, 8))
import cuesta
for report in cuesta.report().as_dict()["graphs"]:
    print(report["name"], "runs op by op" if report["fallback"] else "is compiled")
"""

NEWER = 'torch.__version__ = "2.99.0"\n'


#: Runs a program in a process of its own.
Forked = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(forked: Forked) -> Forked:
    """`run(lose, **environment)` runs PROGRAM."""

    def with_loss(lose: str, **environment: str) -> CompletedProcess[str]:
        strict = {name: value for name, value in os.environ.items() if name != "CUESTA_STRICT"}
        return forked(PROGRAM.format(lose=lose), environment={**strict, **environment})

    return with_loss


def warnings_of(done: CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "torch 2.99.0" in line]


def test_one_warning_and_compiled_graphs(run: Forked) -> None:
    done = run(NEWER)
    (warning,) = warnings_of(done)
    assert f"torch 2.99.0 is newer than those that cuesta was tested with ({torch_versions.tested()})" in warning
    assert "runs op by op" in warning  # says what happens
    assert set(done.stdout.splitlines()) == {"forward is compiled", "backward is compiled"}


@pytest.mark.parametrize(
    ("lose", "name"),
    [
        # imported with cuesta itself
        ("import torch.compiler._cache\ndel torch.compiler._cache.CacheArtifactFactory", "CacheArtifactFactory"),
        # imported with the backend
        ("del torch._functorch.aot_autograd.aot_module_simplified", "aot_module_simplified"),
        ("del torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs", "alloc_tensors_by_stealing_from_void_ptrs"),
        # a module that is there no more
        ("import sys\nsys.modules['torch._functorch._aot_autograd.autograd_cache'] = None", "autograd_cache"),
    ],
)
def test_a_name_that_the_backend_imports(lose: str, name: str, run: Forked) -> None:
    done = run(NEWER + lose)
    (warning,) = warnings_of(done)
    assert "graphs run op by op" in warning and name in warning and torch_versions.tested() in warning
    assert set(done.stdout.splitlines()) == {"whole runs op by op"}


def test_a_name_that_is_looked_up_while_compiling(run: Forked) -> None:
    lose = "import torch._functorch.partitioners\ndel torch._functorch.partitioners.min_cut_rematerialization_partition"
    done = run(NEWER + lose)
    assert any("min_cut_rematerialization_partition" in warning for warning in warnings_of(done))
    assert "whole runs op by op" in done.stdout


def test_a_function_that_takes_other_arguments(run: Forked) -> None:
    lose = "torch._functorch.aot_autograd.aot_module_simplified = lambda gm: gm"
    done = run(NEWER + lose)
    untested, lost = warnings_of(done)
    assert "is newer" in untested and "TypeError" in lost and "frontend/capture/aot.py" in lost
    assert "whole runs op by op" in done.stdout


def test_a_backward_graph_alone(run: Forked) -> None:
    lose = """
import cuesta.driver.compile_graph as compiling
def donated(gm): raise AttributeError("module 'torch' has no attribute '_of_old'")
compiling.donated_arguments = donated
"""
    done = run(NEWER + lose)
    assert any("_of_old" in warning for warning in warnings_of(done))
    assert set(done.stdout.splitlines()) == {"forward is compiled", "backward runs op by op"}


def test_strict_raises(run: Forked) -> None:
    done = run(NEWER + "torch._functorch.aot_autograd.aot_module_simplified = lambda gm: gm", CUESTA_STRICT="1")
    assert done.returncode != 0 and "TypeError" in done.stderr


def test_with_a_tested_torch_a_lost_name_is_an_error(run: Forked) -> None:
    tested = f'torch.__version__ = "{torch_versions.NEWEST[0]}.{torch_versions.NEWEST[1]}.0"\n'
    done = run(tested + "del torch._functorch.aot_autograd.aot_module_simplified")
    assert done.returncode != 0 and "cannot import name 'aot_module_simplified'" in done.stderr


def test_a_public_function_says_what_is_missing(forked: Forked) -> None:
    program = (
        f"import torch\n{NEWER}import torch._guards\ndel torch._guards.TracingContext\nimport cuesta\ncuesta.audit"
    )
    done = forked(program)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("cuesta.errors.Unsupported")]
    assert "cuesta.audit cannot be used" in line and "TracingContext" in line


@pytest.mark.parametrize(
    ("version", "untested"),
    [("2.11.0", False), (f"2.{torch_versions.NEWEST[1]}.9+cu130", False), ("2.99.0a0+git1", True), ("3.0.0", True)],
)
def test_versions(version: str, untested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    assert torch_versions.is_untested() is untested


def test_a_warning_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.98.0")
    warnings: list[str] = []
    monkeypatch.setattr(torch_versions.log, "warning", lambda text, *values: warnings.append(text % values))
    torch_versions.warn_if_untested()
    torch_versions.warn_if_untested()
    assert len(warnings) == 1 and "2.98.0" in warnings[0]
