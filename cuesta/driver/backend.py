"""Implements the backend that torch.compile calls: AOTAutograd around cuesta's compiler of ATen graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuesta.collector import held_back, hold_back_in_dynamo
from cuesta.torch_private.configs import compile_backward_at_once, repro_after

with held_back():  # half a thousand modules, most of them torch's
    from cuesta.driver.autotune import machine_trial
    from cuesta.driver.background.ahead import Ahead
    from cuesta.driver.cache.output_code import Keeping, keeping, kept_by_torch, serialisable
    from cuesta.driver.compile_graph import Request, compile_aten_graph, run_in_python
    from cuesta.driver.dump.logs import observer
    from cuesta.driver.memory.step_memory import StepMemory, at_once
    from cuesta.driver.newer_torch import else_op_by_op
    from cuesta.driver.shared_arguments import guard_shared_memory
    from cuesta.errors import OptionError
    from cuesta.frontend.capture.aot import aot_backend
    from cuesta.frontend.capture.random_numbers import take_random_numbers_as_passed
    from cuesta.frontend.decompositions.table import decompositions_of
    from cuesta.frontend.devices import takes_fake_tensors
    from cuesta.frontend.fx_pipelines import DYNAMO
    from cuesta.options import Options
    from cuesta.reports import compile_report


@held_back()
def compile_fx_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; `torch.compile(f, backend="cuesta")` calls it.

    Takes torch.compile's `mode` and `options`. Raises OptionError where they are wrong; a graph that
    cannot be compiled runs op by op, which the report and a warning say.
    """
    options = Options.from_torch(kwargs.pop("mode", None), kwargs.pop("options", None))
    if kwargs:
        raise OptionError(f"backend cuesta takes mode and options, not {', '.join(sorted(kwargs))}")

    if repro_after() == "dynamo":
        # Torch's minifier script runs reduced graphs while Dynamo compiles. There a second backward graph that is
        # lowered lazily raises an error in torch. The script is written with the config that is set here.
        compile_backward_at_once()
    hold_back_in_dynamo()  # again, because torch._dynamo.reset forgets the callbacks
    fake = takes_fake_tensors(gm)
    keep = Keeping.NOTHING if fake else keeping(gm, example_inputs, options)
    memory, ahead = StepMemory(options), Ahead(options)

    def compiler(kind: str) -> Callable[..., Any]:
        if fake:
            why = "its arguments are fake tensors"
            return lambda graph, _: run_in_python(graph, Request(kind, options), why)
        compile: Callable[..., Any] = functools.partial(
            compile_aten_graph, kind=kind, memory=memory, keep=keep, ahead=ahead
        )
        compile = else_op_by_op(compile, lambda graph, why: run_in_python(graph, Request(kind, options), why))
        return compile if keep is Keeping.NOTHING else serialisable(compile)

    observe = observer(options)
    DYNAMO.run(gm, options, observe)
    if not options.tiered:  # with `tiered` the other process measures
        machine_trial.begin(gm, options)  # LLVM compiles while AOTAutograd traces
    ahead.prepare(gm, example_inputs)
    partition = ahead.watched(functools.partial(memory.partition, observe=observe))
    backend = aot_backend(compiler, decompositions_of(options), partition)
    with kept_by_torch(options, keep), at_once(options):
        compiled = backend(gm, take_random_numbers_as_passed(gm, example_inputs))
    ahead.dismiss()
    # `_boxed_call` marks a callable that takes a list. AOTAutograd copies the mark from our compiled callable to a
    # function that takes separate arguments. Torch's minifier and its scripts trust the mark, call that function with a
    # list, and take the resulting error for right results.
    vars(compiled).pop("_boxed_call", None)
    return compiled if fake or keep is not Keeping.NOTHING else guard_shared_memory(gm, compiled, example_inputs)


compile_fx_graph.reset = compile_report.clear  # type: ignore[attr-defined]
hold_back_in_dynamo()  # torch.compile loads this module before Dynamo traces
