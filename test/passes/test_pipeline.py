"""Pipeline text: what it means, and what is said where it is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuesta._mlir import ir
from cuesta.errors import CuestaError, PassFailed, PipelineError, Unsupported, VerifyError
from cuesta.passes.infra import registry
from cuesta.passes.infra.diagnostics import Diagnostic
from cuesta.passes.infra.pipeline import OwnStep, Pipeline, UpstreamStep
from cuesta.passes.infra.pipeline_text import parse_text, split_options

SUM = """func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  %1 = arith.addf %x, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Probe(registry.Pass):
    """Does as its option says."""

    does: str = "nothing"
    limit: int = 8

    def run(self, module: ir.Module) -> None:
        if self.does == "raise":
            raise KeyError("lost")
        if self.does == "refuse":
            raise Unsupported("cannot lower aten.foo")
        if self.does == "complain":
            ir.Location.file("model.py", 31, 4).emit_error("this line")
            raise PassFailed("gave up")
        if self.does == "misbuild":
            ir.Module.parse("func.func @f() -> i32 { return }")
        if self.does == "corrupt":
            function = module.body.operations[0]
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))


@pytest.fixture(autouse=True)
def probe_pass() -> Iterator[None]:
    registry.register_pass("probe-pass")(Probe)
    yield
    del registry._PASSES["probe-pass"]


@pytest.fixture
def module() -> Iterator[ir.Module]:
    with ir.Context():
        yield ir.Module.parse(SUM)


def wrapped(text: str) -> Pipeline:
    return Pipeline.parse(f"builtin.module({text})")


def test_neighbouring_upstream_passes_share_a_pass_manager() -> None:
    pipeline = wrapped("cse, func.func(canonicalize{max-iterations=3 test-convergence}, cse), probe-pass{limit=4}, cse")
    assert pipeline.steps == (
        UpstreamStep("cse,func.func(canonicalize{max-iterations=3 test-convergence}),func.func(cse)"),
        OwnStep("probe-pass{limit=4}", Probe(limit=4)),
        UpstreamStep("cse"),
    )
    assert [step.text for step in pipeline.passes][1:3] == [
        "func.func(canonicalize{max-iterations=3 test-convergence})",
        "func.func(cse)",
    ]


def test_parsing_is_cached() -> None:
    assert wrapped("cse") is wrapped("cse")


def test_an_empty_pipeline(module: ir.Module) -> None:
    before = str(module)
    wrapped("").run(module)
    assert str(module) == before


def test_passes_run_in_order_and_are_observed(module: ir.Module) -> None:
    seen: list[tuple[str, int]] = []
    wrapped("probe-pass,func.func(cse,canonicalize),probe-pass").run(
        module, observe=lambda name, now: seen.append((name, str(now).count("arith.addf")))
    )
    assert seen == [("probe-pass", 2), ("func.func(cse)", 1), ("func.func(canonicalize)", 1), ("probe-pass", 1)]


@pytest.mark.parametrize(
    ("text", "words", "under_caret"),
    [
        ("builtin.module(canonicalise)", ["'canonicalise'", "did you mean 'canonicalize'"], "canonicalise"),
        ("builtin.module(cse,prob-pass)", ["'prob-pass'", "did you mean 'probe-pass'"], "prob-pass"),
        ("builtin.module(func.func(cse,nonsense))", ["no pass named 'nonsense'"], "nonsense"),
        ("builtin.module(cse{limit=1})", ["'cse' has no option 'limit'"], "cse{"),
        ("builtin.module(canonicalize{max-iterations=x})", ["does not accept", "max-iterations=x"], "canonicalize{"),
        ("builtin.module(affine-loop-tile)", ["'func.func'", "func.func(affine-loop-tile)"], "affine-loop-tile"),
        ("builtin.module(func.func(one-shot-bufferize))", ["'builtin.module'", "'func.func'"], "one-shot"),
        ("builtin.module(func.func(probe-pass))", ["cuesta's", "move it out of 'func.func"], "probe-pass"),
        ("builtin.module(probe-pass{limt=1})", ["no option 'limt'", "limit"], "probe-pass"),
        ("builtin.module(probe-pass{limit=many})", ["'limit'", "int", "'many'"], "probe-pass"),
        ("builtin.module(probe-pass{limit=1 limit=2})", ["'limit' is given twice"], "probe-pass"),
        ("builtin.module(func.fun(cse))", ["'func.fun'"], "func.fun("),
        ("builtin.module(nowhere.op(cse))", ["'nowhere.op'"], "nowhere"),
        ("func.func(cse)", ["'builtin.module'", "'func.func'"], "func.func"),
        ("cse", ["builtin.module(cse)"], "cse"),
        ("builtin.module(cse", ["expected ',' or ')'", "the end"], ""),
        ("builtin.module(cse))", ["expected the end", "')'"], ")"),
        ("builtin.module(cse;cse)", ["expected ',' or ')'", "';'"], ";cse"),
        ("builtin.module(,cse)", ["expected the name of a pass", "','"], ",cse"),
        ("builtin.module(cse{a)", ["never closed"], "{a"),
        ("", ["expected the name of a pass", "the end"], ""),
    ],
)
def test_wrong_text_is_named_and_pointed_at(text: str, words: list[str], under_caret: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline.parse(text)
    headline, shown, caret = str(caught.value).split("\n")
    for word in words:
        assert word in headline
    assert shown.strip() == text
    assert shown[caret.index("^") :].startswith(under_caret)


def test_a_long_text_is_cut_around_the_mistake() -> None:
    text = f"builtin.module({','.join(['cse'] * 100)},nonsense,{','.join(['cse'] * 100)})"
    with pytest.raises(PipelineError) as caught:
        Pipeline.parse(text)
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 130
    assert shown[caret.index("^") :].startswith("nonsense")


def test_a_pass_that_raises(module: ir.Module) -> None:
    with pytest.raises(
        PassFailed, match=r"pass 'probe-pass\{does=raise\}' raised KeyError: 'lost' \(.*test_pipeline.py"
    ):
        wrapped("cse,probe-pass{does=raise}").run(module)


def test_our_errors_come_through_with_a_note(module: ir.Module) -> None:
    with pytest.raises(Unsupported, match="cannot lower aten.foo") as caught:
        wrapped("probe-pass{does=refuse}").run(module)
    assert caught.value.__notes__ == ["in pass 'probe-pass{does=refuse}'"]


def test_diagnostics_of_our_passes_are_not_lost(module: ir.Module) -> None:
    heard: list[Diagnostic] = []
    with pytest.raises(PassFailed, match="gave up"):
        wrapped("probe-pass{does=complain}").run(module, on_diagnostic=heard.append)
    assert heard == [Diagnostic("error", "this line", "model.py", 31, 4)]
    with pytest.raises(PassFailed, match="gave up") as caught:
        wrapped("probe-pass{does=complain}").run(module)
    assert "model.py:31:4: error: this line" in caught.value.__notes__


def test_an_mlir_error_inside_our_pass(module: ir.Module) -> None:
    with pytest.raises(PassFailed, match="error: 'func.return' op has 0 operands"):
        wrapped("probe-pass{does=misbuild}").run(module)


def test_invalid_ir_is_found_after_the_pass_that_left_it(module: ir.Module) -> None:
    with pytest.raises(VerifyError, match=r"pass 'probe-pass\{does=corrupt\}' left invalid IR behind\n.*error:"):
        wrapped("probe-pass{does=corrupt}").run(module)


def test_verification_can_be_left_out(module: ir.Module) -> None:
    wrapped("probe-pass{does=corrupt}").run(module, verify=False)


def test_an_upstream_pass_that_fails(module: ir.Module) -> None:
    heard: list[Diagnostic] = []
    pipeline = wrapped("cse,one-shot-bufferize{bufferize-function-boundaries}")
    with pytest.raises(PassFailed) as caught:
        pipeline.run(module, on_diagnostic=heard.append)
    assert "one-shot-bufferize" in str(caught.value)
    assert "error: op was not bufferized" in str(caught.value)
    assert [(d.severity, d.message, d.line, d.col) for d in heard] == [("error", "op was not bufferized", 3, 8)]


def test_a_silent_failure_of_the_transform_interpreter_is_a_failure() -> None:
    with ir.Context():
        module = ir.Module.parse("""
        module attributes {transform.with_named_sequence} {
          func.func @f() { return }
          transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
            %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
            %0, %1 = transform.structured.tile_using_forall %f tile_sizes [2]
              : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
            transform.yield
          }
        }""")
        with pytest.raises(PassFailed, match="transform-interpreter"):
            wrapped("transform-interpreter").run(module)


def test_options_text() -> None:
    assert split_options("limit=4 verbose only={a b} name='x y' empty=") == {
        "limit": "4",
        "verbose": "true",
        "only": "a b",
        "name": "x y",
        "empty": "",
    }


@given(st.text(alphabet="abc.-_(){},;= '\"\n", max_size=30))
def test_any_text_parses_or_is_a_pipeline_error(text: str) -> None:
    try:
        Pipeline.parse(text)
    except PipelineError as error:
        assert isinstance(error, CuestaError)


@given(
    st.recursive(
        st.sampled_from(["cse", "canonicalize{max-iterations=3}", "x{a={b c} d}"]),
        lambda inner: st.lists(inner, max_size=3).map(lambda items: f"func.func({','.join(items)})"),
        max_leaves=6,
    )
)
def test_printing_gives_back_the_text(text: str) -> None:
    assert str(parse_text(f"builtin.module({text})")) == f"builtin.module({text})"
