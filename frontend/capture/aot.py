"""Runs AOTAutograd with cuesta's compilers, decompositions and partitioner."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuesta.frontend.fx_passes.fx_pipeline import Observer, TrainingStep
from cuesta.frontend.fx_passes.recomputed_values import cheap_ops_known
from cuesta.frontend.fx_pipelines import JOINT, SAVED
from cuesta.options import Options
from cuesta.torch_private.aot_autograd import SerializableAOTDispatchCompiler, aot_module_simplified
from cuesta.torch_private.configs import without_merging, writes_code_lazily
from cuesta.torch_private.dynamo import TensorifyScalarRestartAnalysis, counters, flatten_graph_inputs
from cuesta.torch_private.fx import LazyGraphModule
from cuesta.torch_private.unread_logs import graphs_as_wanted


def aot_backend(
    compiler: Callable[[str], Callable[..., Any]],
    decompositions: Mapping[Any, Any],
    partition_fn: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A backend for Dynamo that hands functional ATen graphs to compilers.

    `compiler` gives the compiler for a kind of graph: "forward", "backward" or "inference". `partition_fn` splits a
    joint graph into forward and backward; the default is `partition`.
    """
    compilers: dict[str, Any] = {
        "fw_compiler": compiler("forward"),
        "bw_compiler": _untraced(compiler("backward")),
        "inference_compiler": compiler("inference"),
    }

    def compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if any(isinstance(value, (list, tuple, dict)) for value in example_inputs):
            flat: Callable[..., Any] = flatten_graph_inputs(gm, example_inputs, compile)
            return flat
        counters["aot_autograd"]["total"] += 1
        try:
            with _files_of_torchs_log(), graphs_as_wanted():
                compiled = aot_module_simplified(
                    gm,
                    example_inputs,
                    **compilers,
                    decompositions=dict(decompositions),
                    partition_fn=partition_fn or partition,
                    keep_inference_input_mutations=True,
                )
        except TensorifyScalarRestartAnalysis:  # no failure: Dynamo traces again
            raise
        except Exception:
            counters["aot_autograd"]["not_ok"] += 1
            raise
        counters["aot_autograd"]["ok"] += 1
        return _never_traced(compiled)

    return compile


def is_trained(example_inputs: Sequence[Any]) -> bool:
    """Whether AOTAutograd makes a forward and a backward graph of a graph with these arguments."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)


def _never_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    untraced: Callable[..., Any] = torch.compiler.disable(function, reason="it is compiled, or compiles")
    return untraced


def _untraced(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Excludes a compiler of backward graphs, and the functions that it makes, from tracing: both may run while Dynamo
    traces."""
    inner = compile.compiler_fn if isinstance(compile, SerializableAOTDispatchCompiler) else compile

    def compile_untraced(*args: Any) -> Any:
        return _never_traced(_never_traced(inner)(*args))

    if isinstance(compile, SerializableAOTDispatchCompiler):
        return SerializableAOTDispatchCompiler(compile.output_code_ty, compile_untraced)
    return compile_untraced


def _files_of_torchs_log() -> contextlib.AbstractContextManager[Any]:
    """A context in which AOTAutograd's log goes to files where TORCH_COMPILE_DEBUG asks for that. Only then is the
    module loaded that writes them: with Inductor's scheduler it takes a tenth of a second of every process, which is
    why torch's own wrapper (torch._dynamo.backends.common) is not used."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return contextlib.nullcontext()
    from cuesta.torch_private.inductor import files_of_torchs_log

    return files_of_torchs_log()


def partition(
    joint: torch.fx.GraphModule,
    joint_inputs: Any,
    *,
    options: Options | None = None,
    observe: Observer | None = None,
    **kwargs: Any,
) -> Any:
    """Splits a joint graph into a forward and a backward graph, returned as by AOTAutograd's partitioners.

    Runs the FX stages `joint` and `saved` around the split, under `options` (by default torch's); `observe` is shown
    the graphs after each.
    """
    from cuesta.torch_private.partitioners import min_cut_rematerialization_partition

    options = options or Options()
    JOINT.run(joint, options, observe)
    # compiler="inductor" means: recomputing pointwise ops is cheap, because the compiler fuses them.
    with without_merging(), cheap_ops_known():
        forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, compiler="inductor", **kwargs)
    step = TrainingStep(forward, _written_when_read(backward), kwargs["num_fwd_outputs"])
    SAVED.run(step, options, observe)
    return step.forward, step.backward


def _written_when_read(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph module that generates its Python code only when the code is read. While Dynamo compiles, all graph
    modules are lazy but the one that the partitioner makes: there each change and each copy regenerates the code of all
    nodes."""
    if not writes_code_lazily():
        return gm
    lazy = LazyGraphModule.from_graphmodule(gm)
    lazy.meta.update(gm.meta)
    return lazy
