"""Options do what docs/options.md says of them (contract, point 3). Some have test files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import cuesta
from cuesta.driver import lower as compiling
from cuesta.options import list_mode_options
from cuesta.reports.compile_report import GraphReport

pytestmark = pytest.mark.usefixtures("cuesta_only")


def chain(x: Tensor) -> Tensor:
    return (x.sin() + 1).softmax(-1)


def report_of(f: Any, *inputs: Tensor, **arguments: Any) -> GraphReport:
    """The report of the one graph of `f`, whose results are compared with eager's."""
    torch._dynamo.reset()
    assert_close(torch.compile(f, backend="cuesta", fullgraph=True, **arguments)(*inputs), f(*inputs))
    (graph,) = cuesta.report().graphs
    return graph


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_epilogue_fusion(target: str) -> None:
    def activated(x: Tensor, w: Tensor) -> Tensor:
        return (x.exp() @ w).relu() + 1

    inputs = torch.randn(32, 48), torch.randn(48, 64)
    ops = {}
    for wanted in (True, False):
        options = {"epilogue_fusion": wanted, "gemm": "kernel", "target": target}
        graph = report_of(activated, *inputs, options=options)
        assert not graph.aten_calls
        ops[wanted] = [{"relu", "mm"} & set(kernel["ops"]) for kernel in graph.kernels]
    assert {"relu", "mm"} in ops[True]
    assert {"relu", "mm"} not in ops[False] and {"relu"} in ops[False] and {"mm"} in ops[False]


def test_overlap_launches() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Softmax(-1), nn.Linear(64, 64), nn.Softmax(-1))

    def waiting(**options: Any) -> list[str]:
        made = cuesta.compile_for(model, torch.randn(64, 64), "cuda:90", options)
        return [kernel.name for kernel in made.kernels if "griddepcontrol.wait" in kernel.text]

    assert waiting()
    assert not waiting(overlap_launches=False)


def test_fallback_random_calls_eagers_dropout_on_a_gpu() -> None:
    def calls(**options: Any) -> set[str]:
        made = cuesta.compile_for(nn.Dropout(0.3), torch.randn(64, 64), "cuda:90", options, training=True)
        return set(made.aten_calls)

    assert calls() == {"aten.bernoulli.p"}
    assert calls(fallback_random=True) == {"aten.native_dropout.default"}


@pytest.mark.parametrize("name", ["trace.enabled", "trace.graph_diagram"])
def test_traces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report_of(chain, torch.randn(3, 4), options={name: True})
    (folder,) = (path for path in (tmp_path / "cuesta_dump").iterdir() if path.is_dir())
    stages = ["import", "graph", "linalg", "kernels", "tiled", "buffers", "loops", "llvm"]
    assert sorted(path.name for path in folder.glob("*.mlir")) == [f"{n:02}_{s}.mlir" for n, s in enumerate(stages)]
    assert len(list((folder / "kernels").iterdir())) == 1
    assert "1 kernel, 1 launch," in (folder / "report.txt").read_text()
    assert (folder / "machine_code.o").read_bytes().startswith(b"!<arch>")
    assert (folder / "graph.svg").exists() == (name == "trace.graph_diagram")


def test_opt_level(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, Any] = {}
    begin_object = compiling.begin_object

    def keep(module: Any, level: int) -> Any:
        finish = begin_object(module, level)
        made[level] = finish()
        return finish

    monkeypatch.setattr(compiling, "begin_object", keep)
    for level in range(4):
        report_of(chain, torch.randn(8, 40), options={"opt_level": level, "cache": False})
    assert list(made) == [0, 1, 2, 3]
    assert made[0] != made[2]


def test_verify() -> None:
    times = [report_of(chain, torch.randn(3, 4), options={"verify": wanted}).times for wanted in (True, False)]
    assert ["verify" in stages for stages in times] == [True, False]


def test_shape_padding_changes_nothing() -> None:
    x = torch.randn(33, 33)
    plain, padded = (report_of(lambda x: x @ x + 1, x, options={"shape_padding": wanted}) for wanted in (False, True))
    assert plain.program() == padded.program()


@pytest.mark.parametrize("mode", list_mode_options())
def test_modes(mode: str) -> None:
    graph = report_of(chain, torch.randn(3, 4), mode=mode)
    assert (len(graph.kernels) > 1) == (mode == "lite"), "one kernel an op"
    assert graph.cuda_graph is None, "on a CPU there is nothing to record"
