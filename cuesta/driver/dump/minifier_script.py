"""Compiles or reduces a failing graph: the functions that the scripts of minifier.py call."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from cuesta.driver.compile_graph import compile_aten_graph
from cuesta.driver.dump.minifier import agrees, copied, fakes, script, write
from cuesta.driver.memory.step_memory import StepMemory
from cuesta.options import Options
from cuesta.torch_private.configs import without_minifier
from cuesta.torch_private.fake_tensors import FakeTensorMode
from cuesta.torch_private.minifier import AccuracyError, minify, repro_common


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
    """Runs a script's `command`: "run", "minify", or "get_args", which returns the graph and its arguments.

    `failure` names the exception that a reduced graph has to raise as well. If it is AccuracyError, the reduced graph's
    results have to be wrong. `others` are torch's arguments, for accuracy.
    """
    gm, inputs = repro_common(argparse.Namespace(save_dir=save_dir, tracing_mode=tracing_mode), mod, load_args)
    if command == "get_args":
        return gm, inputs
    by_values = failure == AccuracyError.__name__
    if command == "run":
        compiled = _compile(copied(gm), inputs, kind, options)
        if by_values and not agrees(compiled, gm, inputs):
            raise AccuracyError(f"results of the graph ({kind}) are not eager's")
        return compiled(list(inputs))

    def fails(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> bool:
        try:
            compiled = _compile(copied(smaller), smaller_inputs, kind, options)
            return by_values and not agrees(compiled, smaller, smaller_inputs)
        except Exception as problem:
            return not by_values and type(problem).__name__ == failure

    def keep(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> None:
        settings = {"kind": kind, "options": options, "failure": failure}
        given = smaller_inputs if by_values else fakes(smaller_inputs)
        write(script(smaller, given, "run", save_dir, settings), smaller, Path(save_dir or "."))

    return minify(gm, inputs, module_fails=fails, dump_state=keep, save_dir=save_dir)


def _compile(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], kind: str, options: Mapping[str, Any]
) -> Callable[[list[Any]], Any]:
    FakeTensorProp(gm, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*inputs)
    with without_minifier():
        memory = StepMemory(Options.from_torch(None, {"cache": False, **options}))
        return compile_aten_graph(gm, inputs, kind, memory)
