"""TORCHDYNAMO_REPRO_AFTER=aot: the ATen graph that failed to compile as a script, which makes it smaller.

    TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=2 python train.py
    python torch_compile_debug/…/minifier/minifier_launcher.py        # leaves repro.py, the smallest graph that fails

At level 1 the script compiles the graph, at levels 2 and 3 it makes it smaller first. Torch's own scripts after
AOTAutograd run Inductor, whatever failed; these are written as torch writes them, and run us. Level 4 is for wrong
results, which TORCHDYNAMO_REPRO_AFTER=dynamo finds for any backend.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.debug_utils import helper_for_dump_minify, minifier_dir
from torch._dynamo.repro.after_aot import repro_common, save_graph_repro
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from cuesta.errors import OptionError
from cuesta.options import Options, options_of

log = logging.getLogger("cuesta")

_TORCHS = "from torch._dynamo.repro.after_aot import run_repro"
_OURS = "from cuesta.frontend.minifier import run_repro"
#: Where a script's graph comes from and goes to says nothing of why it failed.
_PLACES = ("dump", "cache", "cache_dir", "trace.enabled", "trace.graph_diagram")


def check_level() -> None:
    """Raises OptionError for the level that compares results."""
    if torch._dynamo.config.repro_level == 4:
        raise OptionError(
            "TORCHDYNAMO_REPRO_LEVEL=4 with TORCHDYNAMO_REPRO_AFTER=aot compares results of Inductor's alone; "
            "with TORCHDYNAMO_REPRO_AFTER=dynamo it compares those of backend cuesta"
        )


def write_failure(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], kind: str, options: Options, failure: Exception
) -> None:
    """Writes the script of a graph whose compilation raised `failure`."""
    folder = Path(minifier_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"kind": kind, "options": _spelled(options), "failure": type(failure).__name__}
    if torch._dynamo.config.repro_level == 1:
        _write(_script(gm, inputs, "run", str(folder), settings), gm, folder)
    else:
        helper_for_dump_minify(_script(gm, inputs, "minify", str(folder), settings))


def run_repro(
    mod: torch.nn.Module,
    load_args: Any,
    *,
    kind: str,
    options: Mapping[str, Any],
    failure: str,
    command: str,
    save_dir: str | None,
    tracing_mode: str,
    **others: Any,
) -> Any:
    """What a script calls: `command` is "run", "minify", or "get_args" for the graph and its arguments alone.

    `failure` names the exception that a smaller graph has to raise as well; `others` are torch's, for accuracy.
    """
    gm, inputs = repro_common(argparse.Namespace(save_dir=save_dir, tracing_mode=tracing_mode), mod, load_args)
    if command == "get_args":
        return gm, inputs
    if command == "run":
        return _compile(gm, inputs, kind, options)(list(inputs))

    from torch._functorch.fx_minifier import minifier

    def fails(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> bool:
        try:
            _compile(smaller, smaller_inputs, kind, options)
        except Exception as problem:
            return type(problem).__name__ == failure
        return False

    def keep(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> None:
        settings = {"kind": kind, "options": options, "failure": failure}
        _write(_script(smaller, smaller_inputs, "run", save_dir, settings), smaller, Path(save_dir or "."))

    return minifier(gm, inputs, module_fails=fails, dump_state=keep, save_dir=save_dir)


def _compile(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], kind: str, options: Mapping[str, Any]
) -> Callable[[list[Any]], Any]:
    from cuesta.frontend.backend import compile_aten_graph

    FakeTensorProp(gm, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*inputs)
    with torch._dynamo.config.patch(repro_after=None):
        return compile_aten_graph(gm, inputs, kind, Options.from_torch(None, {"cache": False, **options}))


def _script(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], command: str, folder: str | None, settings: Mapping[str, Any]
) -> str:
    text, mode = io.StringIO(), FakeTensorMode()
    # That a graph does not compile has nothing to do with values, and torch runs Inductor to name them.
    fakes = [mode.from_tensor(x) if type(x) is torch.Tensor else x for x in inputs]
    save_graph_repro(text, gm, fakes, "cuesta", save_dir=folder, command=command)
    added = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return (
        text.getvalue()
        .replace(_TORCHS, _OURS)
        .replace("run_repro(mod, load_args, ", f"run_repro(mod, load_args, {added}, ")
    )


def _write(script: str, gm: torch.fx.GraphModule, folder: Path) -> None:
    """Writes a script among the checkpoints, and as repro.py where we are, as torch does."""
    count = len(gm.graph.nodes)
    for path in (folder / f"{count}.py", Path("repro.py")):
        try:
            path.write_text(script)
            log.warning("a graph of %d nodes that does not compile: %s", count, path.absolute())
        except OSError as problem:
            log.warning("%s cannot be written: %s", path, problem)


def _spelled(options: Options) -> dict[str, Any]:
    """The options that are not as by default, as torch.compile takes them and a script can spell them."""
    spelled = {}
    for field, (name, _, usual, _) in zip(dataclasses.fields(Options), options_of(Options), strict=True):
        value = getattr(options, field.name)
        if value != usual and name not in _PLACES:
            spelled[name] = value if isinstance(value, (bool, int)) else str(value)
    return spelled
