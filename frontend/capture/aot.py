"""Runs AOTAutograd with cuesta's compilers, decompositions and partitioner."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo import disable
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.utils import counters, flatten_graph_inputs
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx._lazy_graph_module import _LazyGraphModule

from cuesta.frontend.fx_nodes import last_placeholder, storage_of
from cuesta.frontend.fx_passes.common_subexpressions import merge_equal_nodes
from cuesta.frontend.fx_passes.recomputed_values import cheap_ops_known, read_undetached
from cuesta.frontend.fx_passes.saved_concatenations import save_once
from cuesta.frontend.fx_passes.saved_layouts import save_channels_last
from cuesta.frontend.fx_passes.saved_operands import save_compared
from cuesta.frontend.fx_passes.saved_views import save_views_once
from cuesta.frontend.fx_passes.tied_tables import add_rows_to_tables
from cuesta.unread_logs import graphs_as_wanted


def around(
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


def _never_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    untraced: Callable[..., Any] = disable(function, reason="it is compiled, or compiles")
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
    from torch._inductor.debug import enable_aot_logging

    logged: contextlib.AbstractContextManager[Any] = enable_aot_logging()
    return logged


def partition(joint: torch.fx.GraphModule, joint_inputs: Any, *, exact: bool = False, **kwargs: Any) -> Any:
    """Splits a joint graph into a forward and a backward graph, returned as by AOTAutograd's partitioners.

    With `exact`, sums keep eager's order, and saved tensors keep eager's layout.
    """
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    joint.graph.eliminate_dead_code()
    if torch._functorch.config.cse:
        merge_equal_nodes(joint.graph)
    save_compared(joint.graph)
    read_undetached(joint.graph)
    # compiler="inductor" means: recomputing pointwise ops is cheap, because the compiler fuses them.
    with torch._functorch.config.patch(cse=False), cheap_ops_known():
        forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, compiler="inductor", **kwargs)
    backward = _written_when_read(backward)
    save_once(forward, backward, kwargs["num_fwd_outputs"])
    _keep_old_values(forward, backward, kwargs["num_fwd_outputs"])
    if not exact:
        save_channels_last(forward, backward, kwargs["num_fwd_outputs"])
        add_rows_to_tables(backward)
    save_views_once(forward, backward, kwargs["num_fwd_outputs"])
    return forward, backward


def _written_when_read(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph module that generates its Python code only when the code is read. While Dynamo compiles, all graph
    modules are lazy but the one that the partitioner makes: there each change and each copy regenerates the code of all
    nodes."""
    if not torch._dynamo.config.use_lazy_graph_module:
        return gm
    lazy = _LazyGraphModule.from_graphmodule(gm)
    lazy.meta.update(gm.meta)
    return lazy


def _keep_old_values(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int) -> None:
    """Saves a copy, not the argument itself, of each saved argument that the forward graph or AOTAutograd's wrapper
    writes to. Torch's partitioner saves the argument, so that the backward graph reads the new values: a wrong gradient
    where autograd does not track the argument, an error where it does.

    Where the backward graph writes to the argument, it still gets the argument itself for that."""
    graph = forward.graph
    written = {storage_of(node) for node in _written_arguments(graph)} - {None}
    if not written:
        return
    arguments = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    results: Sequence[Any] = graph.output_node().args[0]  # type: ignore[assignment]
    changed: list[Any] = [*results[:outputs]]
    for value in results[outputs:]:
        if not isinstance(value, torch.fx.Node) or storage_of(value) not in written:
            changed.append(value)
            continue
        argument = arguments[value.name]
        reads = [user for user in argument.users if not _writes(user, argument)]
        if len(reads) < len(argument.users):
            changed.append(value)
            if not reads:
                continue
            with backward.graph.inserting_after(argument):
                old = backward.graph.placeholder(f"{argument.name}_before")
            old.meta = dict(argument.meta)
            argument.replace_all_uses_with(old, delete_user_cb=reads.__contains__)
        with graph.inserting_after(value if value.op != "placeholder" else last_placeholder(graph)):
            copy = graph.call_function(torch.ops.aten.clone.default, (value,))
        copy.meta["val"] = value.meta["val"].clone()
        changed.append(copy)
    graph.output_node().args = (tuple(changed),)
    for module in (forward, backward):
        module.recompile()


def _written_arguments(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """Arguments that a graph copies into, and those into which AOTAutograd's wrapper copies its first results."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    descriptions = graph.output_node().meta.get("desc", ())
    later = [d.mutated_input for d in descriptions if isinstance(d, InputMutationAOTOutput)]
    for node in arguments:
        if node.meta.get("desc") in later or any(_writes(user, node) for user in node.users):
            yield node


def _writes(user: torch.fx.Node, argument: torch.fx.Node) -> bool:
    return user.target is torch.ops.aten.copy_.default and user.args[0] is argument
