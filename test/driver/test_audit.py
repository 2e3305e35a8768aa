"""cuesta.audit: what would be compiled, before anything is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.errors import OptionError, Unsupported
from cuesta.torch_versions import installed


@pytest.fixture(autouse=True)
def no_machine_code() -> Iterator[pytest.MonkeyPatch]:
    """A fresh Dynamo, and an audit that made machine code would fail; `undo` lets it be made."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("machine code was made")

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuesta.driver.lower.begin_object", refuse)
        yield patch
    torch._dynamo.reset()


def running_and_norm(x: Tensor) -> Tensor:
    y = x.logcumsumexp(-1)
    return (y.exp() + 1).softmax(-1)


def test_what_is_compiled_and_what_is_called() -> None:
    result = cuesta.audit(running_and_norm, torch.randn(4, 8))
    (graph,) = result.graphs
    assert not result.breaks and not result.computed
    assert (graph.report.name, graph.report.fallback, graph.argument_bytes) == ("inference", None, 4 * 8 * 4)
    (call,) = graph.report.aten_calls
    line = running_and_norm.__code__.co_firstlineno + 1
    assert (call["op"], call["where"]) == ("aten.logcumsumexp.default", f"{__file__}:{line}")
    assert {"exp", "add", "softmax"} <= {op.lstrip("_") for k in graph.report.kernels for op in k["ops"]}
    text = str(result)
    assert call["reason"] in text and f"{Path(__file__).name}:{line}" in text and "1 kernel, 1 launch" in text


def test_it_says_what_the_report_says_afterwards(no_machine_code: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 8)
    (planned,) = cuesta.audit(running_and_norm, x).graphs
    no_machine_code.undo()
    torch.compile(running_and_norm, backend="cuesta", options={"cache": False})(x)
    (made,) = cuesta.report().graphs
    assert planned.report.program() == made.program()


def test_training_has_both_graphs_and_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = cuesta.audit(model, torch.randn(3, 4))
    assert [graph.report.name for graph in result.graphs] == ["forward", "backward"]
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert all(p.grad is None and type(p) is nn.Parameter for p in model.parameters())


def breaks(x: Tensor) -> Tensor:
    y = x.sin()
    if y.sum() > 0:
        y = y + 1
    torch._dynamo.graph_break()
    return y * 2


def test_graph_breaks_name_their_lines() -> None:
    result = cuesta.audit(breaks, torch.ones(3))
    first = breaks.__code__.co_firstlineno
    assert [found.where for found in result.breaks] == [f"{__file__}:{first + 2}", f"{__file__}:{first + 4}"]
    assert [found.line for found in result.breaks] == ["if y.sum() > 0:", "torch._dynamo.graph_break()"]
    assert "value of a tensor" in result.breaks[0].reason
    assert result.computed and len(result.graphs) == 3 and "on copies" in str(result)


def test_a_function_that_is_run_leaves_its_modules_alone() -> None:
    norm = nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    x, count = torch.randn(3, 4), torch.zeros(3)
    given = count.clone()

    def step(x: Tensor, count: Tensor) -> Tensor:
        loss = norm(x).square().sum()
        count.add_(1)
        if loss > 0:
            loss = loss + 1
        loss.backward()
        return loss

    assert cuesta.audit(step, x, count).computed
    torch.testing.assert_close(dict(norm.state_dict()), before, rtol=0, atol=0)
    torch.testing.assert_close(count, given, rtol=0, atol=0)
    assert norm.weight.grad is None


def test_a_graph_that_is_cut_is_shown_in_pieces() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x.exp(),)) * 2

    result = cuesta.audit(f, torch.randn(4))
    assert not any(graph.report.fallback for graph in result.graphs)
    names = [graph.report.name for graph in result.graphs]
    assert names[0] == "inference, in pieces" and len(names) > 3
    assert "cond" in result.graphs[0].report.aten_calls[0]["op"] and "it runs between programs" in str(result)
    assert {"exp", "sin", "cos"} <= {op for g in result.graphs for k in g.report.kernels for op in k["ops"]}


def test_what_runs_op_by_op_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise Unsupported("no op like this")

    monkeypatch.setattr("cuesta.frontend.importer.import_graph", refuse)
    result = cuesta.audit(running_and_norm, torch.ones(2, 3))
    (graph,) = result.graphs
    assert graph.report.fallback == "no op like this"
    assert "runs op by op in Python: no op like this" in str(result)


def test_sizes_that_the_data_decide() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.nonzero(x).sum() + x.exp().sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        result = cuesta.audit(f, torch.ones(3))
    assert "aten.nonzero" in result.graphs[0].report.aten_calls[0]["op"]
    assert "exp" in {op for g in result.graphs for k in g.report.kernels for op in k["ops"]}
    assert "aten.nonzero" in str(result) and json.dumps(result.as_dict())


def test_options_are_those_of_the_compiled_model() -> None:
    x = torch.randn(4)

    def f(x: Tensor) -> Tensor:
        return x.exp() + x.sin()

    model = nn.Sequential(nn.Sigmoid(), nn.Tanh())
    for subject in (f, model):
        apart = torch.compile(subject, backend="cuesta", options={"fusion": False})
        counts = [len(cuesta.audit(one, x).graphs[0].report.kernels) for one in (subject, apart)]
        assert counts[0] == 1 < counts[1]
    with pytest.raises(OptionError, match="unknown mode"):
        cuesta.audit(torch.compile(f, backend="cuesta", mode="fastest"), x)


def test_an_audit_is_data_too_and_takes_keywords() -> None:
    def f(x: Tensor, *, scale: float) -> Tensor:
        return x * scale

    data = cuesta.audit(f, torch.randn(4), scale=2.0).as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["graphs"][0]["kernels"][0]["ops"] == ["mul"]


def test_nothing_to_compile() -> None:
    assert "Dynamo found no tensor ops" in str(cuesta.audit(lambda x: x, torch.ones(2)))


@pytest.mark.skipif(installed() < (2, 13), reason="torch 2.11 and 2.12 count the compiles of other backends")
def test_many_audits_do_not_use_up_the_recompiles(no_machine_code: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    for _ in range(torch._dynamo.config.recompile_limit + 1):
        cuesta.audit(running_and_norm, x)
    no_machine_code.undo()
    torch.compile(running_and_norm, backend="cuesta", fullgraph=True)(x)
    assert len(cuesta.report().graphs) == 1
