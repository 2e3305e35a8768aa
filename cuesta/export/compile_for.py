"""Compiles a model's kernels for a GPU that this machine need not have.

    compiled = cuesta.compile_for(model, (x,), target="hip:gfx942")
    print(compiled)
    compiled.write("out")     # out/0/gelu.mlir, out/0/gelu.s, out/0/gelu.hsaco, …, out/kernels.json

The model is traced with fake tensors: nothing is computed, and no weight is copied. The fake tensors are on the model's
device, because a torch without CUDA cannot even index a fake tensor on a GPU; the ATen graphs are then moved to a fake
GPU. From there they are compiled as by `torch.compile(model, backend="cuesta")`, as far as their kernels.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuesta.cache import open_cache
from cuesta.collector import held_back
from cuesta.errors import Unsupported
from cuesta.frontend.attention.spelled_out_flex_attention import spell_out_flex_attention
from cuesta.frontend.capture.aot import aot_backend, partition
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.frontend.decompositions.table import decompositions
from cuesta.frontend.fx_pipelines import ATEN, DYNAMO
from cuesta.lowering.tt_to_binary.kernels import warm_up
from cuesta.lowering.tt_to_binary.target_kernels import TargetKernel, check_target, make_kernels, write_kernels
from cuesta.options import Options
from cuesta.reports.progress import Progress
from cuesta.reports.quantities import count_text, size_text
from cuesta.targets import Target, parse_target
from cuesta.torch_private.aot_graphs import make_boxed_func
from cuesta.torch_private.configs import backward_at_once, recompiles
from cuesta.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensorMode,
    detect_fake_mode,
)
from cuesta.torch_private.pytree import tree_map
from cuesta.torch_versions import warn_if_untested

_ATEN = torch.ops.aten
_CONTIGUOUS = torch.contiguous_format
_MANY = 1 << 20


@dataclass(frozen=True)
class GraphMemory:
    """The bytes that a call of a graph holds by its plan, beyond its arguments. The workspaces of libraries are not in
    the plan."""

    #: at most
    peak: int
    #: at its end: results and what they save for a backward graph, less the arguments that the call has freed
    kept: int

    def __str__(self) -> str:
        end = f"{size_text(self.kept)} kept" if self.kept >= 0 else f"{size_text(-self.kept)} freed"
        return f"{size_text(self.peak)} of memory at most, {end}"


@dataclass(frozen=True)
class TargetModel:
    """The result of `compile_for`."""

    target: Target
    kernels: list[TargetKernel]
    #: "inference", "forward" or "backward" for each graph
    graphs: list[str]
    #: of each graph
    memory: list[GraphMemory]
    #: ATen overload → how often the graphs call it besides their kernels
    aten_calls: dict[str, int]

    def write(self, folder: str | Path) -> Path:
        """Writes each kernel's text, assembly and binary below `folder`, and kernels.json, which lists them.

        Raises OSError where that cannot be written.
        """
        return write_kernels(self.kernels, self.target, folder, self.graphs, self.aten_calls)

    def __str__(self) -> str:
        lines = [f"{self.target}: {count_text(len(self.kernels), 'kernel')}"]
        lines += [
            f"  graph {i} ({kind}), {held}" for i, (kind, held) in enumerate(zip(self.graphs, self.memory, strict=True))
        ]
        lines += [f"  graph {kernel.graph} ({self.graphs[kernel.graph]}), {kernel}" for kernel in self.kernels]
        lines += [f"  ATen {overload} x{count}" for overload, count in self.aten_calls.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class TracedGraph:
    """A functional ATen graph whose tensors are on a fake device."""

    module: torch.fx.GraphModule
    #: "inference", "forward" or "backward"
    kind: str
    #: positions of the donated arguments
    donated: list[int]


def compile_for(
    model: Callable[..., Any],
    inputs: Any,
    target: str | Target,
    options: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
) -> TargetModel:
    """The kernels of `model`, a module or a function, for `target`, such as "cuda:90", "hip:gfx942" or "xpu".

    `inputs` is one tensor, a tuple or list of arguments, or a dict of keyword arguments; of tensors only shapes,
    strides and dtypes count. `options` are torch.compile's. With `training` the graphs are those of a training step:
    forward, and backward from every result that has a gradient, of which a loss is the usual one. Raises OptionError
    for a target that is no GPU, Unsupported for a model of which torch.compile would capture no graph, or a graph that
    would run op by op, CompileError for a kernel that cannot be made.
    """
    warn_if_untested()
    where = parse_target(target) if isinstance(target, str) else target
    check_target(where)
    chosen = Options.from_torch(None, {**(options or {}), "target": where})
    warm_up(where)  # Triton loads while Dynamo traces
    with held_back():
        return _compile_for(model, inputs, where, chosen, training)


def _compile_for(model: Callable[..., Any], inputs: Any, where: Target, chosen: Options, training: bool) -> TargetModel:
    said = Progress()
    graphs = trace(model, inputs, where, training=training, options=chosen)
    said.tell(f"{count_text(len(graphs), 'graph')} traced")
    kernels: list[TargetKernel] = []
    memory: list[GraphMemory] = []
    calls: Counter[str] = Counter()
    for number, graph in enumerate(graphs):
        made, held = _compile_graph(number, graph, where, chosen, calls)
        kernels += made
        memory.append(held)
        said.tell(f"{number + 1} of {count_text(len(graphs), 'graph')} compiled")
    return TargetModel(where, kernels, [graph.kind for graph in graphs], memory, dict(calls))


def _compile_graph(
    number: int, graph: TracedGraph, target: Target, options: Options, calls: Counter[str]
) -> tuple[list[TargetKernel], GraphMemory]:
    """The graph's kernels and memory. Adds its calls into ATen to `calls`."""
    from cuesta.dialects import host, make_context, walk
    from cuesta.driver.late.smaller_blocks import smaller_blocks
    from cuesta.driver.memory.memory_limit import planned_memory
    from cuesta.driver.stage_pipelines import pipeline_of
    from cuesta.passes.pipelines import stages_for

    with make_context():
        module = lower_graph(graph, target, options, "blocks")
        smaller = smaller_blocks(module)
        pipeline_of(stages_for(target)["tt"], options).run(module, verify=options.verify)
        planned = planned_memory(module)
        calls.update(host.Call.overload.of(op) for op in walk(module.operation) if host.Call.matches(op))
        made = make_kernels(module, target, open_cache(options.cache_root), number, smaller)
        return made, GraphMemory(planned["peak"], planned["kept"])


def lower_graph(graph: TracedGraph, target: Target, options: Options, level: str) -> Any:
    """The graph as a module at `level`, in the current MLIR context. Raises what `compile_for` does."""
    return next(module for name, module in levels(graph, target, options) if name == level)


def levels(graph: TracedGraph, target: Target, options: Options) -> Iterator[tuple[str, Any]]:
    """The name of each level in turn, from "import" down, and the module at it, in the current MLIR context. The next
    level is made in the same module. Raises what `compile_for` does."""
    from cuesta.driver.stage_pipelines import pipeline_of
    from cuesta.frontend.importer import import_graph
    from cuesta.passes.pipelines import stages_for

    ATEN.run(graph.module, options)
    module = import_graph(graph.module, graph.donated, target, _device_of(target)).module
    yield "import", module
    for name, stage in stages_for(target).items():
        pipeline_of(stage, options).run(module, verify=options.verify)
        yield name, module


def trace(
    model: Callable[..., Any], inputs: Any, target: Target, *, training: bool = False, options: Options | None = None
) -> list[TracedGraph]:
    """The model's graphs, functional ATen, with their tensors on a fake device of the target's type.

    Arguments are those of `compile_for`. Raises Unsupported where the data would decide what is computed, and where
    there is no graph.
    """
    # A function may refer to modules, whose weights are real.
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    positional, keywords = _arguments(tree_map(lambda value: _fake(value, mode), inputs))
    graphs: list[TracedGraph] = []

    def collector(kind: str) -> Callable[..., Any]:
        def collect(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            graphs.append(TracedGraph(graph, kind, donated_arguments(graph) if kind == "backward" else []))
            return make_boxed_func(graph.forward)

        return collect

    def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        options = Options(target=target)
        DYNAMO.run(graph, options)
        compiler = aot_backend(collector, decompositions(), functools.partial(partition, options=options))
        # An attention that no kernel of the target computes whole must not become a call of the CPU's attention kernel.
        with sdpa_kernel(SDPBackend.MATH):
            return compiler(graph, example_inputs)

    if isinstance(model, torch.nn.Module):
        with FakeCopyMode(mode):
            model = copy.deepcopy(model)
    # Each call has a backend of its own, so that Dynamo traces anew. Dynamo must not count that as failing guards.
    unlimited = recompiles(_MANY, _MANY)
    # Nothing calls backward(), which would leave gradients on parameters, so the backward graph is made at once.
    at_once = backward_at_once()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    try:
        with unlimited, at_once, mode, torch.set_grad_enabled(training):
            compiled(*positional, **keywords)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise Unsupported(f"what the model computes depends on its data: {error} has no value ahead of time") from None
    if not graphs:
        raise Unsupported(
            "torch.compile captures no graph of the model, which would run in eager; TORCH_LOGS=graph_breaks says why"
        )
    for graph in graphs:
        # Before the graph moves: torch finds the strides of the whole call by a copy, which needs the device.
        spell_out_flex_attention(graph.module, options or Options(target=target))
        _move(graph.module, _device_of(target))
    return graphs


def _device_of(target: Target) -> torch.device:
    return torch.device(target.device_type, 0) if target.gpu else torch.device("cpu")


def _arguments(inputs: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), inputs
    if isinstance(inputs, (tuple, list)):
        return inputs, {}
    return (inputs,), {}


def _fake(value: Any, mode: FakeTensorMode) -> Any:
    """The fake tensor of a tensor; anything else unchanged."""
    with mode:
        return _on(value, value.device) if isinstance(value, torch.Tensor) else value


def _move(graph: torch.fx.GraphModule, device: torch.device) -> None:
    """Moves a graph to `device`: its arguments, and the tensors that it holds or creates, so that all results
    follow."""
    for node in graph.graph.nodes:
        node.kwargs = tree_map(lambda value: device if isinstance(value, torch.device) else value, node.kwargs)
    arguments = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    mode = detect_fake_mode(arguments) or FakeTensorMode()
    with mode:
        moved = [_on(value, device) for value in arguments]
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                setattr(graph, node.target, _on(getattr(graph, node.target), device))
    _OnDevice(graph, mode).propagate_dont_convert_inputs(*moved)


class _OnDevice(FakeTensorProp):
    """Gives the nodes of a graph their tensors on another device, where an op may choose other strides for its result.
    A view that these do not allow gets a contiguous copy, as torch's `reshape` makes one."""

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        self._copied: list[torch.fx.Node] = []
        result = super().propagate_dont_convert_inputs(*args)
        for node in self._copied:
            source = node.all_input_nodes[0]
            with node.graph.inserting_before(node), self._mode:
                copy = node.graph.call_function(_ATEN.clone.default, (source,), {"memory_format": _CONTIGUOUS})
                copy.meta = {**source.meta, "val": source.meta["val"].clone(memory_format=_CONTIGUOUS)}
            node.replace_input_with(source, copy)
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        # torch's fake kernels make such operands, or the gradient, contiguous. A torch without CUDA cannot do so on a
        # fake GPU, so the operands are made contiguous before.
        if target in (_ATEN.convolution.default, _ATEN.convolution_backward.default):
            args = tree_map(lambda value: _contiguous(value, dim=3), args)
        elif target is _ATEN._softmax_backward_data.default:
            args = tree_map(_contiguous, args)
        return super().call_function(target, args, kwargs)

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.target is not _ATEN.view.default:
            return super().run_node(node)
        try:
            return super().run_node(node)
        except (RuntimeError, ValueError):  # the strides do not allow it; anything else fails in reshape, too
            self._copied.append(node)
            node.target = _ATEN.reshape.default
            try:
                return super().run_node(node)
            finally:
                node.target = _ATEN.view.default


def _contiguous(value: Any, dim: int | None = None) -> Any:
    """A contiguous tensor in place of one that is not, of `dim` dims if that is given; anything else unchanged."""
    if not isinstance(value, torch.Tensor) or value.is_contiguous() or dim not in (None, value.dim()):
        return value
    return torch.empty(value.shape, dtype=value.dtype, device=value.device)


def _on(value: Any, device: torch.device) -> Any:
    """An empty tensor like `value` on `device`; anything but a tensor unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
