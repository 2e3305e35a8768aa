"""Writes the ATen graph that fails to compile, or gives wrong results, as a script that reduces it.

    TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=2 python train.py
    python torch_compile_debug/…/minifier/minifier_launcher.py        # leaves repro.py, the smallest graph that fails

At level 1 the script compiles the graph; at levels 2 and 3 it reduces the graph first. At level 4 each call of each
graph is compared with eager, and the script reduces a graph with wrong results. Torch's own scripts for failures after
AOTAutograd always run Inductor. Ours have the same form, but call minifier_script.py.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cuesta.driver.calling import Boxed, as_boxed
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.options import Options, options_of
from cuesta.torch_private.configs import minifiers_comparison, repro_level
from cuesta.torch_private.decompositions import clone_preserve_strides
from cuesta.torch_private.fake_tensors import FakeTensorMode
from cuesta.torch_private.minifier import (
    AccuracyError,
    cast_to_fp64,
    get_minifier_repro_path,
    helper_for_dump_minify,
    minifier_dir,
    same,
    save_graph_repro,
)

log = logging.getLogger("cuesta")

_TORCHS = "from torch._dynamo.repro.after_aot import run_repro"
_OURS = "from cuesta.driver.dump.minifier_script import run_repro"
#: Options for files and folders, which have no effect on the failure.
_PLACES = ("dump", "cache", "cache_dir", "trace.enabled", "trace.graph_diagram")


def watched(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], kind: str, options: Options, compile: Callable[[], Boxed]
) -> Boxed:
    """Compiles `gm`. If that raises, or at level 4 if a call gives wrong results, writes a script before the error is
    raised."""
    original = copied(gm)  # compiling changes `gm`
    donated = donated_arguments(gm) if kind == "backward" else []
    settings = {"kind": kind, "options": _spelled(options)}
    try:
        boxed = compile()
    except Exception as failure:
        _write_first(original, fakes(inputs), settings | {"failure": type(failure).__name__})
        raise
    if repro_level() != 4:
        return boxed

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        if not agrees(boxed, original, args, donated):
            _write_first(original, args, settings | {"failure": AccuracyError.__name__})
            raise AccuracyError(
                f"the {kind} graph's results differ from eager's; {get_minifier_repro_path()} has the graph"
            )
        return boxed(args)

    return call


def _write_first(gm: torch.fx.GraphModule, inputs: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Writes the script for the whole graph, before any reduction."""
    folder = Path(minifier_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    if repro_level() == 1:
        write(script(gm, inputs, "run", str(folder), settings), gm, folder)
    else:
        helper_for_dump_minify(script(gm, inputs, "minify", str(folder), settings))


def agrees(compiled: Boxed, gm: torch.fx.GraphModule, inputs: Sequence[Any], donated: Sequence[int] = ()) -> bool:
    """Whether results, and arguments that are not donated, equal eager's after a call. As in torch's minifier, both are
    compared with the same computation in float64."""
    config = minifiers_comparison()

    def after(call: Boxed, given: Sequence[Any]) -> list[Any]:
        given = [clone_preserve_strides(x) if isinstance(x, torch.Tensor) else x for x in given]
        # The random numbers are the same in each run.
        with torch.no_grad(), torch.random.fork_rng(_indices(inputs)):
            results = call([*given])
        return [*results, *(x for i, x in enumerate(given) if i not in donated)]

    wanted, found, exact = after(_unboxed(gm), inputs), after(compiled, inputs), None
    if config.same_two_models_use_fp64:
        try:
            wide, widened = cast_to_fp64(copy.deepcopy(gm), [*inputs])
            exact = after(_unboxed(wide), widened)
        except Exception as problem:  # an op may have no float64 form
            log.warning("the comparison has no float64 results: %s", problem)
    return same(
        wanted,
        found,
        exact,
        tol=config.repro_tolerance,
        equal_nan=True,
        ignore_non_fp=config.repro_ignore_non_fp,
        log_error=log.warning,
    )


def _unboxed(gm: torch.fx.GraphModule) -> Boxed:
    return lambda args: gm(*args)


def _indices(inputs: Sequence[Any]) -> set[int]:
    """The indices of the GPUs that tensors are on."""
    devices = {x.device for x in inputs if isinstance(x, torch.Tensor)}
    return {device.index for device in devices if device.type == "cuda"}


def copied(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    return torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))


def fakes(inputs: Sequence[Any]) -> list[Any]:
    """Fake tensors for the inputs: values do not matter for whether a graph compiles."""
    mode = FakeTensorMode()
    return [mode.from_tensor(x) if type(x) is torch.Tensor else x for x in inputs]


def script(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], command: str, folder: str | None, settings: Mapping[str, Any]
) -> str:
    text = io.StringIO()
    save_graph_repro(text, gm, inputs, "cuesta", save_dir=folder, command=command, stable_hash=True)
    added = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return (
        text.getvalue()
        .replace(_TORCHS, _OURS)
        .replace("run_repro(mod, load_args, ", f"run_repro(mod, load_args, {added}, ")
    )


def write(script: str, gm: torch.fx.GraphModule, folder: Path) -> None:
    """Writes a script into the folder of checkpoints, and as repro.py into the current folder, as torch does."""
    count = len(gm.graph.nodes)
    for path in (folder / f"{count}.py", Path("repro.py")):
        try:
            path.write_text(script)
            log.warning("a failing graph of %d nodes is in %s", count, path.absolute())
        except OSError as problem:
            log.warning("%s cannot be written: %s", path, problem)


def _spelled(options: Options) -> dict[str, Any]:
    """The options that differ from their defaults, by torch.compile's names, with values that a script can spell."""
    spelled = {}
    for field, (name, _, usual, _) in zip(dataclasses.fields(Options), options_of(Options), strict=True):
        value = getattr(options, field.name)
        if value != usual and name not in _PLACES:
            spelled[name] = value if isinstance(value, (bool, int)) else str(value)
    return spelled
