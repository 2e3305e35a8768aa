"""Tests the stages of FX graphs: which passes run, and that dumps and logs show the graphs after each stage."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.fx import Graph, GraphModule

from cuesta.frontend.fx_passes.fx_pipeline import FxPass, FxStage, TrainingStep
from cuesta.frontend.fx_pipelines import FX_STAGES
from cuesta.options import Options


def test_passes_have_names_of_their_own() -> None:
    names = [step.name for stage in FX_STAGES for step in stage.passes]
    assert len(set(names)) == len(names)


def test_a_stage_runs_what_the_options_want_in_order() -> None:
    ran = []

    def noted(name: str) -> FxPass[GraphModule]:
        return FxPass(name, lambda gm, options: ran.append(name), lambda options: name != "exact" or options.fusion)

    stage = FxStage("stage", "a graph", (noted("first"), noted("exact"), noted("last")))
    graph = Graph()
    graph.output(graph.call_function(torch.sin, (graph.placeholder("x"),)))
    gm = GraphModule(torch.nn.Module(), graph)
    shown: dict[str, str] = {}
    stage.run(gm, Options(fusion=False), lambda name, text: shown.update({name: text()}))
    assert ran == ["first", "last"]
    assert list(shown) == ["stage"] and "torch.sin" in shown["stage"]


def test_both_graphs_of_a_training_step_are_shown() -> None:
    graph = Graph()
    graph.output((graph.placeholder("x"),))
    gm = GraphModule(torch.nn.Module(), graph)
    shown: list[str] = []
    FxStage[TrainingStep]("saved", "two graphs", ()).run(
        TrainingStep(gm, gm, 1), Options(), lambda name, _: shown.append(name)
    )
    assert shown == ["saved_forward", "saved_backward"]


def test_a_dump_has_the_graphs_of_every_stage(tmp_path: Path) -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 8, requires_grad=True)
    options = {"dump": str(tmp_path), "cache": False}
    torch.compile(lambda x: (x.exp() * x).sum(), backend="cuesta", options=options)(x).backward()
    stages = [path.name.rpartition("_")[0][4:] for path in sorted(tmp_path.glob("*.py"))]
    assert stages == ["dynamo", "joint", "saved_forward", "saved_backward"]
    (forward,) = tmp_path.glob("*_forward_*/aten.py")
    assert "torch.ops.aten.exp.default" in forward.read_text()
    assert "exp" in next(tmp_path.glob("*_dynamo_*.py")).read_text()


def test_a_dump_that_cannot_be_written_does_not_stop_the_compile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch._dynamo.reset()
    (tmp_path / "file").write_text("")
    options = {"dump": str(tmp_path / "file"), "cache": False}
    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(torch.sin, backend="cuesta", options=options)(x), torch.sin(x))
