"""A pipeline's passes and their options as data, and the text that they print as."""

from __future__ import annotations

import pytest

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.errors import PipelineError
from cuesta.passes.infra.pipeline import OwnStep, Pipeline
from cuesta.passes.infra.registry import all_passes


def test_passes_and_options_of_a_pipeline_are_data() -> None:
    pipeline = Pipeline.parse(
        "builtin.module(fold-views,plan-memory{spill-from=3},func.func(canonicalize),host-to-llvm)"
    )
    assert pipeline.with_options("plan-memory") is pipeline
    changed = pipeline.with_options("plan-memory", spill_from=5, guarded=True).without(["fold-views", "cse"])
    assert Pipeline.parse(changed.text) == changed
    changed = changed.with_pass("check-bounds", before="host-to-llvm").with_pass("fold-views", None)
    names = [step.own.name if isinstance(step, OwnStep) else step.text for step in changed.passes]
    assert names == ["plan-memory", "func.func(canonicalize)", "check-bounds", "host-to-llvm", "fold-views"]
    planning = changed.passes[0]
    assert isinstance(planning, OwnStep)
    assert (planning.own.spill_from, planning.own.guarded) == (5, True)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no-such-pass"):
        pipeline.with_pass("fold-views", before="no-such-pass")


def test_every_pass_is_in_a_module_of_its_name() -> None:
    """Pipelines import the module when they name the pass."""
    homes = {name: cls.__module__.rpartition(".")[2].replace("_", "-") for name, cls in all_passes().items()}
    assert len(homes) > 50
    assert all(home == name for name, home in homes.items()), homes


def test_a_float_that_cannot_be_widened_is_refused() -> None:
    with make_context():
        module = ir.Module.parse('module attributes {cuesta.target = "cpu"} {}')
        with pytest.raises(PipelineError, match="takes slow=bf16, slow=f16, slow=bf16,f16 or slow=measured, not 'f8'"):
            Pipeline.parse("builtin.module(compute-in-f32{slow=f8})").run(module)
