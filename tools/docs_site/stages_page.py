"""Makes the page of the stages: what each target's pipelines run, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuesta.frontend.fx_pipelines import FX_STAGES
from cuesta.passes.infra.registry import find_pass
from cuesta.passes.pipelines import Stage, stages_for
from cuesta.targets import parse_target

_ABOUT = """# Stages

A stage is the pipeline that makes a level, and is named for it. `cuesta-opt --from` and `--to` take these names.
`cuesta-opt --list-stages` prints the same pipelines as text, which `--pass-pipeline` reads.
[Architecture](../architecture.md) has a picture of the levels, and [a graph on its way](../walk.md) an example at each.
Names without a link are passes of MLIR itself.
"""


_FX_NAMES = frozenset(one.name for stage in FX_STAGES for one in stage.passes)


def targets() -> dict[str, Mapping[str, Stage]]:
    """Title → the stages of a kind of target."""
    return {"To a CPU": stages_for(parse_target("cpu")), "To a GPU": stages_for(parse_target("cuda:90"))}


def stages_page() -> str:
    """The page's Markdown."""
    parts = [_ABOUT, "\n## FX graphs\n"]
    for stage in FX_STAGES:
        about = stage.about[0].upper() + stage.about[1:]
        parts.append(f"\n### {stage.name}\n\n{about}.\n\n{_numbered(one.name for one in stage.passes)}")
    for title, stages in targets().items():
        shown = "".join(f"\n### {name}\n\n{_numbered(stage.passes)}" for name, stage in stages.items())
        parts.append(f"\n## {title}\n{shown}")
    return "".join(parts)


def _numbered(passes: Iterable[str]) -> str:
    return "".join(f"1. {_linked(text)}\n" for text in passes)


def _linked(text: str) -> str:
    """A pass with its options, linked to its description if it is one of ours."""
    name = text.partition("{")[0]
    return f"[`{text}`](passes.md#{name})" if name in _FX_NAMES or find_pass(name) else f"`{text}`"
