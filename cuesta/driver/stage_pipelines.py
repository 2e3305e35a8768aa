"""Gives the pass pipeline of each stage under a compile's options."""

from __future__ import annotations

from cuesta.errors import PipelineError
from cuesta.options import Options
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.pipelines import CHECKS, EPILOGUES, OVERLAPS, Stage, stages_for
from cuesta.targets import CPU, Target

#: The stage that plans memory.
PLANNING = "kernels"

#: What follows all stages: LLVM makes machine code, and Triton compiles the kernels of a GPU.
MACHINE_CODE, KERNELS_CODE = "machine code", "kernels' code"


def stages_after(level: str, target: Target = CPU) -> list[Stage]:
    """The stages after `level`, which is a stage's name, or "import" for a module fresh from the importer.

    Raises PipelineError for an unknown level.
    """
    stages = stages_for(target)
    names = ["import", *stages]
    if level not in names:
        raise PipelineError(f"no level named {level!r}; the levels are {', '.join(names)}")
    return list(stages.values())[names.index(level) :]


def pipeline_of(stage: Stage, options: Options) -> Pipeline:
    """The pass pipeline of a stage under the options."""
    pipeline = Pipeline.parse(stage.pipeline)
    if not options.epilogue_fusion:
        pipeline = pipeline.without(EPILOGUES)
    if not options.overlap_launches:
        pipeline = pipeline.without(OVERLAPS)
    if options.checked and stage.name in CHECKS:
        pipeline = pipeline.with_pass(*CHECKS[stage.name])
    fusing = {"fuse": options.fusion, "epilogues": options.epilogue_fusion}
    asked = {name: given for name in ("gemm", "attention") if (given := getattr(options, name)) != "auto"}
    pipeline = pipeline.with_options("form-kernels", **{name: False for name, wanted in fusing.items() if not wanted})
    pipeline = pipeline.with_options("plan-memory", **({"guarded": True} if options.checked else {}))
    return pipeline.with_options("call-libraries", **asked)
