"""What torch's logging, tracing, profiler and minifier see of a compile and of a call."""

from __future__ import annotations

import logging
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.debug_utils import AccuracyError

import cuesta
from cuesta._mlir import ir
from cuesta.errors import PassFailed

pytestmark = pytest.mark.usefixtures("cuesta_only")


def f(x: Tensor, w: Tensor) -> Tensor:
    return (x.sin() + 1).softmax(-1) @ w


class Heard(logging.Handler):
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What the logger `cuesta` says; its level is put back."""
    logger, handler = logging.getLogger("cuesta"), Heard()
    level = logger.level
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def compiled(**options: Any) -> Tensor:
    torch._dynamo.reset()
    run = torch.compile(f, backend="cuesta", fullgraph=True, options={"cache": False, **options})
    result: Tensor = run(torch.randn(3, 4), torch.randn(4, 5))
    return result


def test_the_logger_tells_the_report_and_the_stages(heard: Heard) -> None:
    compiled()
    assert heard.texts == []
    logging.getLogger("cuesta").setLevel(logging.INFO)
    compiled()
    (text,) = heard.texts
    assert text.startswith("inference: ") and "kernel sin_add" in text
    logging.getLogger("cuesta").setLevel(logging.DEBUG)
    compiled()
    stages = [text.split(":")[0] for text in heard.texts if text.startswith("stage ")]
    levels = [f"stage {name}" for name in ("graph", "linalg", "kernels", "tiled", "buffers", "loops", "llvm")]
    assert stages[stages.index("stage graph") :] == levels  # before them, those of FX graphs


PROGRAM = """
import torch
def f(x):
    return (x.sin() + 1).softmax(-1)
torch.compile(f, backend="cuesta", options={"cache": False})(torch.randn(3, 4))
"""


def test_torch_logs_and_torch_trace(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"TORCH_LOGS": "cuesta,output_code", "TORCH_TRACE": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[__output_code] cuesta, stage loops:" in done.stderr and "affine.for" in done.stderr
    assert re.search(r"inference: 1 kernel, 1 launch,", done.stderr)
    (trace,) = tmp_path.glob("dedicated_log_torch_trace_*")
    text = trace.read_text()
    for name in ("cuesta_graph", "cuesta_kernels", "cuesta_loops", "cuesta_report"):
        assert f'"artifact": {{"name": "{name}"' in text
    assert "cuesta.sin" in text  # the payload


def test_a_program_is_an_event_of_the_profiler() -> None:
    norm = nn.LayerNorm(66)  # of a row as long kthvalue is a call
    run = torch.compile(lambda x: norm(nn.functional.gelu(x).kthvalue(2, keepdim=True).values + x), backend="cuesta")
    x = torch.randn(3, 66)
    run(x).sum().backward()
    with torch.profiler.profile() as profile:
        run(x).sum().backward()
    events = {event.name: event for event in profile.events()}
    (forward,) = [name for name in events if name.startswith("cuesta forward")]
    (backward,) = [name for name in events if name.startswith("cuesta backward")]
    assert "test_observed.py:" in forward and "gelu" in forward and "[" in backward
    assert "aten::kthvalue" in [child.name for child in events[forward].cpu_children]


def test_so_is_one_for_many_sizes() -> None:
    run = torch.compile(lambda x: x.sin().softmax(-1), backend="cuesta", dynamic=True)
    run(torch.randn(3, 4))
    with torch.profiler.profile() as profile:
        run(torch.randn(5, 6))
    assert [e.name for e in profile.events() if e.name.startswith("cuesta inference")] != []


def put_before_form_kernels(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Any], None]) -> None:
    """Has the pass do something else first, to its module."""
    from cuesta.passes.infra.registry import find_pass

    form_kernels = find_pass("form-kernels")
    assert form_kernels is not None
    run = form_kernels.run

    def run_both(self: Any, module: Any) -> None:
        broken(module)
        run(self, module)

    monkeypatch.setattr(form_kernels, "run", run_both)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, scripts: None) -> None:
    """form-kernels fails for a graph that has a sine."""

    def fail(module: Any) -> None:
        if "math.sin" in str(module):
            raise KeyError("lost")

    put_before_form_kernels(monkeypatch, fail)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch, scripts: None) -> None:
    """form-kernels makes each sine a cosine."""
    put_before_form_kernels(monkeypatch, lambda module: take_for(module, "math.sin", "math.cos"))


@pytest.fixture
def wrong_gradients(monkeypatch: pytest.MonkeyPatch, scripts: None) -> None:
    """form-kernels makes each cosine a sine."""
    put_before_form_kernels(monkeypatch, lambda module: take_for(module, "math.cos", "math.sin"))


def take_for(module: Any, name: str, other: str) -> None:
    """Has one unary op computed in the place of another."""

    def visit(op: Any) -> Any:
        if op.name == name:
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create(other, [op.results[0].type], list(op.operands))
            op.results[0].replace_all_uses_with(made.results[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Scripts and repro.py are written to the test's folder, and what they set is put back."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["a script"])
    # The scripts set what they like.
    dynamo, environment = torch._dynamo.config.save_config(), dict(os.environ)  # type: ignore[attr-defined]
    lazily = torch._functorch.config.patch(force_non_lazy_backward_lowering=False)
    with torch._inductor.config.patch(generate_intermediate_hooks=False), lazily:
        yield
    torch._dynamo.config.load_config(dynamo)  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(environment)


def fails(folder: Path, after: str, level: int) -> None:
    patch = torch._dynamo.config.patch(repro_after=after, repro_level=level, debug_dir_root=str(folder))
    with patch, pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled()
    assert isinstance(caught.value.inner_exception, PassFailed)
    assert cuesta.report().graphs == []


@pytest.mark.usefixtures("broken")
def test_the_minifier_after_dynamo_names_the_backend(tmp_path: Path) -> None:
    fails(tmp_path, "dynamo", 2)
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    assert "run_repro" in launcher.read_text() and "backend='cuesta'" in launcher.read_text()


def wrong_results(folder: Path, after: str, call: Callable[[], Any], sources: Callable[[str], Any]) -> Any:
    """What `sources` finds in the smallest graph of a call that gives wrong results; the graph's script, run again,
    says so too."""
    patch = torch._dynamo.config.patch(repro_after=after, repro_level=4, debug_dir_root=str(folder))
    with patch, pytest.raises(Exception, match="Bad accuracy|differ from eager's"):
        call()
    (launcher,) = folder.rglob("minifier_launcher.py")
    assert "'cuesta'" in launcher.read_text() or "cuesta.driver.dump.minifier" in launcher.read_text()
    runpy.run_path(str(launcher), run_name="__main__")
    torch._dynamo.reset()
    with pytest.raises(AccuracyError):
        runpy.run_path("repro.py", run_name="__main__")
    return sources((folder / "repro.py").read_text())


def called_methods(text: str) -> list[str]:
    """Of Dynamo's graph."""
    return re.findall(r" = \w+\.(\w+)\(", text.partition("def forward")[2].partition("def load_args")[0])


def aten_ops(text: str) -> list[str]:
    return re.findall(r"aten\.(\w+)", text)


class Sines(nn.Module):
    """Whose gradients have a cosine."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).sin().square()


def train(dynamic: bool | None = None) -> None:
    torch._dynamo.reset()
    module = torch.compile(Sines(), backend="cuesta", dynamic=dynamic, options={"cache": False})
    (module(torch.randn(3, 4, requires_grad=True)) * torch.randn(3, 5)).sum().backward()


def write_sines() -> None:
    def write(x: Tensor, y: Tensor) -> Tensor:
        x.copy_((y * 2).sin() + 1)
        return y.exp()

    torch._dynamo.reset()
    torch.compile(write, backend="cuesta", options={"cache": False})(torch.randn(3, 4), torch.randn(3, 4))


@pytest.mark.usefixtures("wrong")
def test_the_minifier_after_dynamo_makes_what_is_wrong_smaller(tmp_path: Path) -> None:
    assert wrong_results(tmp_path, "dynamo", compiled, called_methods) == ["sin"]


@pytest.mark.usefixtures("wrong_gradients")
def test_the_minifier_after_dynamo_makes_wrong_gradients_smaller(tmp_path: Path) -> None:
    assert wrong_results(tmp_path, "dynamo", train, called_methods) == ["sin"]


@pytest.mark.usefixtures("wrong")
def test_the_minifier_after_aot_makes_what_is_wrong_smaller(tmp_path: Path) -> None:
    assert wrong_results(tmp_path, "aot", compiled, aten_ops) == ["sin"]


@pytest.mark.usefixtures("wrong_gradients")
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_minifier_after_aot_makes_wrong_gradients_smaller(dynamic: bool, tmp_path: Path) -> None:
    assert wrong_results(tmp_path, "aot", lambda: train(dynamic), aten_ops) == ["cos"]


@pytest.mark.usefixtures("wrong")
def test_the_minifier_after_aot_sees_what_is_written(tmp_path: Path) -> None:
    assert "sin" in wrong_results(tmp_path, "aot", write_sines, aten_ops)


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_right_results_are_not_minified(after: str, tmp_path: Path) -> None:
    with torch._dynamo.config.patch(repro_after=after, repro_level=4, debug_dir_root=str(tmp_path)):
        compiled()
        train()
        write_sines()
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.usefixtures("broken")
def test_the_minifier_after_aot_makes_the_graph_smaller(tmp_path: Path) -> None:
    fails(tmp_path, "aot", 2)
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    assert "aten.mm" in launcher.read_text() and "options={}" in launcher.read_text()
    runpy.run_path(str(launcher), run_name="__main__")
    smallest = (tmp_path / "repro.py").read_text()
    assert re.findall(r"aten\.(\w+)", smallest) == ["sin"]
    with pytest.raises(PassFailed, match="lost"):
        runpy.run_path("repro.py", run_name="__main__")


@pytest.mark.usefixtures("broken")
def test_the_failed_graph_after_aot_as_a_script(tmp_path: Path) -> None:
    fails(tmp_path, "aot", 1)
    with pytest.raises(PassFailed, match="lost"):
        runpy.run_path("repro.py", run_name="__main__")
