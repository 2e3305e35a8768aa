"""Tells what `torch.compile(model, backend="cuesta")` would make of a model, without compiling it.

    print(cuesta.audit(model, x))

Dynamo and AOTAutograd trace the model as torch.compile would, with fake tensors: nothing is computed, and no weight is
copied or changed. Each graph is lowered to the level at which its kernels, its calls into ATen and its memory plan
exist, and no further: no machine code is made. If the model's Python needs values of tensors (`if x.sum() > 0`), the
model runs once in eager instead, on copies of itself and of its inputs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cuesta.driver.compile_graph import report_of_steps
from cuesta.driver.make_program import plan
from cuesta.driver.pieces import in_pieces, steps_to_cut_at
from cuesta.driver.specialise import is_symbolic
from cuesta.errors import DeviceError, Unsupported
from cuesta.frontend.capture.aot import aot_backend
from cuesta.frontend.decompositions.table import decompositions_of
from cuesta.frontend.fx_pipelines import ATEN, DYNAMO
from cuesta.options import Options
from cuesta.reports.audit_result import Audit, AuditedGraph, GraphBreak
from cuesta.reports.compile_report import GraphReport
from cuesta.torch_private.aot_graphs import make_boxed_func
from cuesta.torch_private.configs import backward_at_once, recompiles
from cuesta.torch_private.dynamo import backend_of, graph_break_reasons, original_of
from cuesta.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensorMode,
    detect_fake_mode,
)
from cuesta.torch_private.ops import has_schema
from cuesta.torch_private.pytree import tree_flatten, tree_map
from cuesta.torch_private.tensors import version
from cuesta.torch_versions import warn_if_untested

_MANY = 1 << 20
_DATA_DECIDE = (DataDependentOutputException, DynamicOutputShapeException)


def audit(model: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Audit:
    """Reports what would be compiled of `model(*inputs, **kwargs)`, what would be called in ATen, and where graphs
    break.

    `model` is a module or a function, or the result of torch.compile for one, whose mode and options then apply. Grad
    mode and `requires_grad` decide, as in a call, whether training graphs are made. The tensors of a function's modules
    keep their values and gradients. Other Python state that a function changes (an optimizer's state, a list) stays
    changed, so audit the model or the loss rather than a whole step. Raises what the model itself raises for these
    inputs, and OptionError for wrong options.
    """
    warn_if_untested()
    options = Options.from_torch(**_arguments_of_compile(model))
    original = original_of(model)
    name = type(original).__name__ if isinstance(original, torch.nn.Module) else original.__qualname__
    try:
        collector = _trace_fake(original, inputs, kwargs, options)
        computed = False
    except _DATA_DECIDE:
        collector = _trace_copies(original, inputs, kwargs, options)
        computed = True
    return Audit(name, collector.graphs, collector.breaks, computed)


class _Collector:
    """A backend that plans each graph and then runs the graph in eager."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.graphs: list[AuditedGraph] = []
        self.breaks: list[GraphBreak] = []
        self.seen: dict[int, _Snapshot] = {}

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        DYNAMO.run(gm, self.options)
        run = aot_backend(self._compiler, decompositions_of(self.options))(gm, example_inputs)

        def remember_and_run(*args: Any) -> Any:
            for arg in args:
                if isinstance(arg, torch.Tensor) and id(arg) not in self.seen:
                    self.seen[id(arg)] = _Snapshot.of(arg)
            return run(*args)

        return remember_and_run

    def _compiler(self, kind: str) -> Callable[..., Any]:
        def compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            self._plan(gm, kind)
            return make_boxed_func(gm.forward)

        return compile

    def _plan(self, gm: torch.fx.GraphModule, kind: str) -> Callable[..., Any]:
        """Plans a graph and adds the report; a graph that the backend would split is planned piece by piece."""
        ATEN.run(gm, self.options)
        steps = steps_to_cut_at(gm)
        if steps is not None:
            if steps:
                self.graphs.append(AuditedGraph(report_of_steps(steps, kind), len(steps), 0))
            in_pieces(gm, steps, lambda piece, name: self._plan(piece, f"{kind}, {name}"))
        else:
            self.graphs.append(plan_graph(gm, kind, self.options))
        return make_boxed_func(gm.forward)

    def run(self, model: Callable[..., Any], inputs: Any, kwargs: Any) -> None:
        """Calls `model`, compiled by torch.compile with this backend."""
        # An audit has code cache entries of its own, so that it affects neither the user's compiled code nor the limit
        # on recompiles.
        isolated = "isolate_recompiles" in inspect.signature(torch.compile).parameters
        arguments: dict[str, Any] = {"isolate_recompiles": True} if isolated else {}
        compiled = torch.compile(model, backend=self, dynamic=False, **arguments)
        before = len(graph_break_reasons)
        try:
            # Nothing calls backward(), which would leave gradients on parameters.
            with recompiles(_MANY, _MANY), backward_at_once():
                compiled(*inputs, **kwargs)
        finally:
            for snapshot in self.seen.values():
                snapshot.restore()
        self.breaks = list(_breaks(graph_break_reasons[before:]))


def _trace_fake(model: Callable[..., Any], inputs: Any, kwargs: Any, options: Options) -> _Collector:
    """Traces the model with fake tensors. Raises one of _DATA_DECIDE where its Python needs a value."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # a function may refer to modules, whose weights are real
    inputs, kwargs = tree_map(lambda v: _fake(v, mode), (inputs, kwargs))
    if isinstance(model, torch.nn.Module):
        with FakeCopyMode(mode):
            model = copy.deepcopy(model)
    collector = _Collector(options)
    with mode:
        collector.run(model, inputs, kwargs)
    return collector


def _trace_copies(model: Callable[..., Any], inputs: Any, kwargs: Any, options: Options) -> _Collector:
    model = copy.deepcopy(model)
    inputs, kwargs = tree_map(_cloned, (inputs, kwargs))
    collector = _Collector(options)
    with torch.random.fork_rng():
        collector.run(model, inputs, kwargs)
    return collector


@dataclass(frozen=True)
class _Snapshot:
    """The state of a graph's argument before the graph ran, to undo changes that a function makes to its modules."""

    tensor: torch.Tensor
    gradient: torch.Tensor | None
    version: int
    value: torch.Tensor | None

    @staticmethod
    def of(tensor: torch.Tensor) -> _Snapshot:
        gradient = tensor.grad if tensor.is_leaf else None
        # Fake tensors have no values, and a real tensor among fake ones keeps its value.
        computes = detect_fake_mode([tensor]) is None
        value = tensor.detach().clone() if computes else None
        return _Snapshot(tensor, gradient, version(tensor), value)

    def restore(self) -> None:
        if self.tensor.is_leaf:
            self.tensor.grad = self.gradient
        if self.value is not None and version(self.tensor) != self.version:
            with torch.no_grad():
                self.tensor.copy_(self.value)


def _cloned(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _fake(value: Any, mode: FakeTensorMode) -> Any:
    return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value


def plan_graph(gm: torch.fx.GraphModule, kind: str, options: Options) -> AuditedGraph:
    """Plans a functional ATen graph and reports what it would become."""
    report = GraphReport(kind)
    ops = [node for node in gm.graph.nodes if node.op == "call_function" and has_schema(node.target)]
    arguments = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    try:
        plan(gm, kind, replace(options, memory_limit=None), report)
    except (Unsupported, DeviceError) as problem:
        sized = "compiled for each set of sizes, when called: " if is_symbolic(gm) else ""
        report.fallback = f"{sized}{problem}"
    return AuditedGraph(report, len(ops), sum(map(_byte_count, tree_flatten(arguments)[0])))


def _byte_count(value: Any) -> int:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return 0
    size = value.untyped_storage().nbytes()
    if isinstance(size, torch.SymInt):
        return int(size.node.hint) if size.node.has_hint() else 0
    return size


def _breaks(reasons: Sequence[Any]) -> Iterator[GraphBreak]:
    """Each graph break once: Dynamo may meet a line several times."""
    seen = set()
    for reason in reasons:
        frame = reason.user_stack[-1] if reason.user_stack else None
        found = GraphBreak.of(reason.reason, frame)
        if found not in seen:
            seen.add(found)
            yield found


def _arguments_of_compile(model: Any) -> dict[str, Any]:
    """The mode and options that torch.compile got for `model`; empty if `model` is not compiled."""
    cells = [cell.cell_contents for cell in getattr(model, "__closure__", None) or ()]
    contexts = [getattr(model, "dynamo_ctx", None), *cells]
    for context in contexts:
        if (backend := backend_of(context)) is not None:
            return dict(getattr(backend, "kwargs", {}))
    return {}
