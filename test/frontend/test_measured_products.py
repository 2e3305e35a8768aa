"""max_autotune for products on a GPU: what is asked, and what each candidate's program is (target "tt", no clock)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

import cuesta
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.driver import lower
from cuesta.driver.autotune import candidate_programs, measured_choices
from cuesta.driver.loading import load
from cuesta.options import Options
from cuesta.passes.libraries.products.routes import mark_routes
from cuesta.policy.choices import Question, chosen_by
from cuesta.reports.compile_report import GraphReport

Tensor = torch.Tensor


@dataclass
class Asked:
    """In the place of what measures: runs every candidate by itself, and takes the second."""

    questions: list[Question] = field(default_factory=list)
    launches: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def __call__(self, question: Question, op: ir.Operation) -> str:
        self.questions.append(question)
        results = {}
        with chosen_by(None), _disable_current_modes(), torch.no_grad():
            for candidate in question.candidates:
                module, level = candidate_programs.gemm(op, candidate)
                report = GraphReport("candidate")
                program = load(lower.lower_module(module, Options(cache=False), report, level))
                results[candidate] = program(candidate_programs.inputs_of(program))
                self.launches[candidate] = report.launches
                self.calls[candidate] = sum(call["count"] for call in report.aten_calls)
            for found in results.values():
                torch.testing.assert_close(found, results["library"], rtol=0.05, atol=0.05)
        return question.candidates[1]


def ask(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Tensor], *arguments: Tensor) -> Asked:
    """What is asked when `function` is compiled, whose result is right with what was chosen."""
    asked = Asked()
    monkeypatch.setattr(lower, "TIMED", ("tt",))
    monkeypatch.setattr(measured_choices.MeasuredChoices, "of", lambda *rest: asked)
    torch._dynamo.reset()
    options = {"target": "tt", "max_autotune": True, "cache": False}
    made = torch.compile(function, backend="cuesta", options=options)(*arguments)
    torch.testing.assert_close(made, function(*arguments), rtol=0.05, atol=0.05)
    return asked


def floats(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def test_both_products_of_swiglu_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask(
        monkeypatch, lambda x, g, u: F.silu(x @ g.t()) * (x @ u.t()), floats(64, 96), floats(192, 96), floats(192, 96)
    )
    first, second = asked.questions
    assert first == second and first.about == "mm 64x96x192 bf16, 6 ops"
    library, *kernels = first.candidates
    assert (library, asked.launches[library], asked.calls[library]) == ("library", 1, 2)
    assert kernels and all((asked.launches[k], asked.calls[k]) == (1, 0) for k in kernels)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 1 and not graph.aten_calls


def test_what_follows_is_timed_with_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = floats(2, 64, 96), floats(80, 96), floats(80)
    asked = ask(monkeypatch, lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, x, weight, bias, floats(2, 64, 80))
    (question,) = asked.questions
    assert "cuesta.gelu" in question.key and "cuesta.strides = [96, 1]" in question.key
    assert {asked.launches[k] for k in question.candidates} == {1}


def test_equal_layers_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next layer's sum of residuals, which waits for its own product, is no part of a layer's kernel."""

    def layers(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            x = x + F.linear(F.layer_norm(x, (96,)), weight)
        return x

    asked = ask(monkeypatch, layers, floats(64, 96), floats(96, 96), floats(96, 96), floats(96, 96))
    assert len(asked.questions) == 3
    assert len(set(asked.questions)) == 1


def test_a_vector_and_what_tensor_cores_do_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask(monkeypatch, lambda x, w: F.linear(x, w), floats(1, 96), floats(160, 96))
    assert [question.candidates for question in asked.questions] == [("rows", "library")]
    for dtype in (torch.float32, torch.float64):  # TF32 is not allowed by default
        assert not ask(monkeypatch, torch.matmul, floats(8, 8, dtype=dtype), floats(8, 8, dtype=dtype)).questions


@pytest.mark.parametrize(
    ("columns", "spelled"),
    [
        (50257, "tensor cores"),  # rows that begin unaligned, for which libraries have slow kernels
        (50304, "library"),
    ],
)
def test_the_rule_of_thumb_comes_first(columns: int, spelled: str) -> None:
    """It is what is taken where no time is left to measure."""
    text = f"""
      module attributes {{cuesta.target = "cuda:90"}} {{
        func.func @graph(%x: tensor<512x768xbf16>, %w: tensor<{columns}x768xbf16>) -> tensor<512x{columns}xbf16> {{
          %0 = "cuesta.permute"(%w) {{dims = [1, 0]}} : (tensor<{columns}x768xbf16>) -> tensor<768x{columns}xbf16>
          %1 = "cuesta.mm"(%x, %0) : (tensor<512x768xbf16>, tensor<768x{columns}xbf16>) -> tensor<512x{columns}xbf16>
          return %1 : tensor<512x{columns}xbf16>
        }}
      }}"""
    questions: list[Question] = []

    def first(question: Question, op: ir.Operation) -> str:
        questions.append(question)
        return question.candidates[0]

    with make_context(), chosen_by(first):
        mark_routes(ir.Module.parse(text), "auto")
    (question,) = questions
    assert question.candidates[0].startswith(spelled)
    assert "library" in question.candidates
