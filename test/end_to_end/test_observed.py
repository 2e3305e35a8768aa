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
    assert stages == [f"stage {name}" for name in ("graph", "linalg", "kernels", "tiled", "buffers", "loops", "llvm")]


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
    assert re.search(r"inference: 1 kernels, 1 launches", done.stderr)
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
    import cuesta.passes
    from cuesta.passes.registry import find_pass

    cuesta.passes.load_all()
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

    def mistake(module: Any) -> None:
        def visit(op: Any) -> Any:
            if op.name == "math.sin":
                with ir.InsertionPoint(op), op.location:
                    cosine = ir.Operation.create("math.cos", [op.results[0].type], list(op.operands))
                op.results[0].replace_all_uses_with(cosine.results[0])
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)

    put_before_form_kernels(monkeypatch, mistake)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Scripts and repro.py are written to the test's folder, and what they set is put back."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # The scripts set what they like.
    dynamo, environment = torch._dynamo.config.save_config(), dict(os.environ)  # type: ignore[attr-defined]
    with torch._inductor.config.patch(generate_intermediate_hooks=False):
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


@pytest.mark.usefixtures("wrong")
def test_the_minifier_after_dynamo_finds_wrong_results(tmp_path: Path) -> None:
    patch = torch._dynamo.config.patch(repro_after="dynamo", repro_level=4, debug_dir_root=str(tmp_path))
    with patch, pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="Bad accuracy"):
        compiled()
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    text = launcher.read_text()
    assert "accuracy=True" in text and "backend='cuesta'" in text and "softmax" in text


@pytest.mark.usefixtures("scripts")
def test_right_results_are_not_minified(tmp_path: Path) -> None:
    with torch._dynamo.config.patch(repro_after="dynamo", repro_level=4, debug_dir_root=str(tmp_path)):
        compiled()
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


def test_results_after_aot_are_not_compared() -> None:
    with torch._dynamo.config.patch(repro_after="aot", repro_level=4), pytest.raises(Exception, match="AFTER=dynamo"):
        compiled()
