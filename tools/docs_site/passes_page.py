"""Makes the page of the passes: what each does, its options, and the stages that run it."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from cuesta.frontend import fx_pipelines
from cuesta.frontend.fx_passes.fx_pipeline import FxPass
from cuesta.frontend.fx_pipelines import FX_STAGES
from cuesta.passes.infra.registry import Pass, all_passes
from cuesta.tools.docs_site.stages_page import targets
from cuesta.tools.markdown import prose, table

_ABOUT = """# Passes

Every pass of cuesta's, by the folder that it is in. `cuesta-opt --pass-pipeline='builtin.module(fold-views,cse)'` runs
passes by name, with MLIR's own between them. `cuesta-opt --list-passes` prints a line for each.
[Adding a pass](../adding_a_pass.md) is a recipe.
"""


def passes_page() -> str:
    """The page's Markdown."""
    rooms: dict[str, list[type[Pass]]] = {}
    for kind in all_passes().values():
        rooms.setdefault(_folder(kind.__module__), []).append(kind)
    parts = [_ABOUT]
    for folder, kinds in sorted(rooms.items()):
        in_module = Counter(kind.__module__ for kind in kinds)
        parts += [f"\n## {folder}/\n", *(_described(kind, in_module[kind.__module__] == 1) for kind in kinds)]
    return "".join([*parts, "\n## FX graphs\n", *_fx_passes()])


def _folder(module: str) -> str:
    """The folder of a pass: `passes/graph`, or `lowering/cuesta_to_linalg` for the parts of a step down."""
    return "/".join(module.split(".")[1:3])


def _described(kind: type[Pass], alone: bool) -> str:
    """A pass's section. The docstring of the module is about the pass if the pass is `alone` in it."""
    about = prose((sys.modules[kind.__module__].__doc__ if alone else kind.__doc__) or "")
    options = dataclasses.fields(kind)
    rows = [[f"`{f.name.replace('_', '-')}`", f"`{f.type}`", f"`{f.default}`"] for f in options]
    shown = table(["option", "type", "default"], rows) if rows else ""
    where = ", ".join(_stages_with(kind.name)) or "no stage by default"
    return f"\n### {kind.name}\n\n{about}\n\n{shown}\nRun by: {where}. Module: `{kind.__module__}`.\n"


def _stages_with(name: str) -> Iterator[str]:
    for title, stages in targets().items():
        for stage in stages.values():
            if any(text.partition("{")[0] == name for text in stage.passes):
                yield f"`{stage.name}` on the way {title[0].lower()}{title[1:]}"


def _fx_passes() -> Iterator[str]:
    for stage in FX_STAGES:
        for one in stage.passes:
            about = _rewrite_of(one)
            yield f"\n### {one.name}\n\n{prose(about.__doc__ or '')}\n\n"
            yield f"Run by: `{stage.name}`. Module: `{about.__module__}`.\n"


def _rewrite_of(one: FxPass[Any]) -> Callable[..., Any]:
    """The function that a pass of FX graphs calls. Most passes call it in a lambda, which picks its options."""
    if one.rewrite.__name__ != "<lambda>":
        return one.rewrite
    named = (getattr(fx_pipelines, name, None) for name in one.rewrite.__code__.co_names)
    return next(function for function in named if inspect.isfunction(function))
