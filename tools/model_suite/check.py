"""Compiles a model of the suite in eval and in training, at one batch size and at several, and compares with eager."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import cuesta
from cuesta.driver.backend import compile_fx_graph
from cuesta.reports import compile_report
from cuesta.tools.accuracy import as_float64, check_close, named_tensors, neighbours
from cuesta.tools.bench.backends import one_line
from cuesta.tools.models import SuiteCase
from cuesta.torch_private import pytree
from cuesta.torch_private.configs import recurrent_layers
from cuesta.torch_private.dynamo import counters, mark_dynamic

#: The batch size of the single-size ways, and the sizes of the others. 2 is the least size of a dynamic dim in Dynamo.
BATCH = 3
BATCHES = (BATCH, 7, 2)
#: Without the cache, so that earlier runs do not influence the measurements.
OPTIONS: Mapping[str, Any] = {"cache": False}

#: Compares a module with its compiled form on inputs.
Compare = Callable[[nn.Module, Callable[..., Any], Mapping[str, Tensor]], "Counts"]
#: Compiles a model with options and compares it with eager.
Way = Callable[[SuiteCase, Mapping[str, Any]], "Counts"]
#: Prepares inputs before a call, as a user would.
Prepare = Callable[[SuiteCase, Mapping[str, Tensor]], None]


@dataclass
class Counts:
    """Counts over a model's graphs, from `cuesta.report()`."""

    graphs: int = 0
    kernels: int = 0
    aten_calls: int = 0
    #: the part of `aten_calls` that goes through Python
    python_calls: int = 0
    breaks: int = 0
    #: time of the first call, with an empty cache
    seconds: float = 0.0
    fallbacks: list[str] = field(default_factory=list)
    #: why a graph was compiled for each set of sizes
    specialised: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """The result of one way to run a model; `wrong` says how it differs from eager's, or what was raised."""

    counts: Counts
    wrong: str | None = None


def check_case(
    case: SuiteCase, ways: Mapping[str, Way] | None = None, options: Mapping[str, Any] = OPTIONS
) -> dict[str, Verdict]:
    """Way → verdict, for the given ways or by default all of WAYS."""
    verdicts = {}
    for name, run in (ways or WAYS).items():
        torch.compiler.reset()
        compile_report.clear()
        counters.clear()
        try:
            # By default Dynamo leaves nn.LSTM and its kin to eager.
            with recurrent_layers():
                verdicts[name] = Verdict(run(case, options))
        except Exception as error:
            verdicts[name] = Verdict(Counts(), one_line(error))
    return verdicts


def run_eval(case: SuiteCase, options: Mapping[str, Any] = OPTIONS) -> Counts:
    """Two calls in eval mode. Raises AssertionError if a result is further from float64 than `check_close` allows."""
    module, inputs = _make(case)
    compiled = torch.compile(module, backend="cuesta", options=dict(options))
    counts = _compare_call(module, compiled, inputs)
    _compare_call(module, compiled, inputs)
    return counts


def run_training(case: SuiteCase, options: Mapping[str, Any] = OPTIONS) -> Counts:
    """One forward and backward in training mode: outputs, gradients, buffers."""
    module, inputs = _make(case)
    return _compare_step(module, torch.compile(module, backend="cuesta", options=dict(options)), inputs)


def _at_sizes(case: SuiteCase, options: Mapping[str, Any], compare: Compare, prepare: Prepare) -> Counts:
    """Runs one compiled module at each of BATCHES. `graphs` of the counts is the number that Dynamo requested."""
    module, _ = _make(case)
    graphs = 0

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return compile_fx_graph(gm, inputs, options=options)

    compiled = torch.compile(module, backend=backend)
    with _counted() as counts:
        for batch in BATCHES:
            inputs = case.inputs(batch)
            prepare(case, inputs)
            try:
                compare(module, compiled, inputs)
            except AssertionError as error:
                raise AssertionError(f"a batch of {batch}: {error}") from None
    counts.graphs = graphs
    return counts


def _leave(case: SuiteCase, inputs: Mapping[str, Tensor]) -> None:
    """Marks nothing. Dynamo detects the changed batch size: one graph for the first size, one for all others."""


def _mark_batch(case: SuiteCase, inputs: Mapping[str, Tensor]) -> None:
    """Marks the dims that depend on the batch size as dynamic: Dynamo makes one graph, or raises."""
    for name, other in case.inputs(1 + max(BATCHES)).items():
        for dim, size in enumerate(other.shape):
            if size != inputs[name].shape[dim]:
                mark_dynamic(inputs[name], dim)


#: Name → way to run and compare a case. At several batch sizes, Dynamo should compile two graphs, or one if the batch's
#: dim is marked dynamic. More are expected only if Dynamo breaks the model's graph.
WAYS: Mapping[str, Way] = {
    "eval": run_eval,
    "training": run_training,
    "batch sizes": lambda case, options: _at_sizes(case, options, _compare_call, _leave),
    "batch sizes, marked": lambda case, options: _at_sizes(case, options, _compare_call, _mark_batch),
    "training at batch sizes": lambda case, options: _at_sizes(case, options, _compare_step, _leave),
    "training at batch sizes, marked": lambda case, options: _at_sizes(case, options, _compare_step, _mark_batch),
}


def _make(case: SuiteCase) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    return case.module(), dict(case.inputs(BATCH))


def _compare_call(module: nn.Module, compiled: Callable[..., Any], inputs: Mapping[str, Tensor]) -> Counts:
    module.eval()
    wide, wide_inputs = as_float64(module, inputs)
    with torch.no_grad():
        expected, exact = module(**inputs), wide(**wide_inputs)
        with _counted() as counts:
            actual = compiled(**inputs)
    check_close(named_tensors(actual), named_tensors(expected), named_tensors(exact), what="outputs")
    return counts


def _compare_step(module: nn.Module, compiled: Callable[..., Any], inputs: Mapping[str, Tensor]) -> Counts:
    """Compares a training step. Restores the module's state, so that every batch size begins with the same buffers."""
    module.train()
    module.zero_grad()
    before = copy.deepcopy(module.state_dict())
    wide, wide_inputs = as_float64(module, inputs)
    exact = _step(wide, wide, wide_inputs)
    nearby = [_step(m, m, i) for m, i in neighbours(module, inputs)]
    eager = copy.deepcopy(module)
    expected = _step(eager, eager, inputs)
    with _counted() as counts:
        actual = _step(module, compiled, inputs)
    for part, what in enumerate(("outputs", "gradients", "buffers")):
        others = [step[part] for step in nearby]
        check_close(actual[part], expected[part], exact[part], what=what, nearby=others)
    module.load_state_dict(before)
    return counts


def _step(module: nn.Module, run: Callable[..., Any], inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    outputs = run(**inputs)
    leaves = pytree.tree_leaves(outputs)
    torch.stack([_loss(x) for x in leaves if isinstance(x, Tensor) and x.is_floating_point()]).sum().backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return named_tensors(outputs), gradients, dict(module.named_buffers())


def _loss(output: Tensor) -> Tensor:
    """A loss of one output, each element with a different weight."""
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view(output.shape)
    return (output * weights).square().mean()


@contextmanager
def _counted() -> Iterator[Counts]:
    """Yields counts that are filled in when the block ends."""
    counts = Counts()
    start = time.perf_counter()
    yield counts
    counts.seconds = time.perf_counter() - start
    graphs = cuesta.report().graphs
    counts.graphs = len(graphs)
    counts.kernels = sum(len(g.kernels) for g in graphs)
    calls = [call for g in graphs for call in g.aten_calls]
    counts.aten_calls = sum(call["count"] for call in calls)
    counts.python_calls = sum(call["count"] for call in calls if call["route"].lower() == "python")
    counts.specialised = [g.specialised for g in graphs if g.specialised]
    counts.fallbacks = [g.fallback for g in graphs if g.fallback]
    counts.breaks = sum(counters["graph_break"].values())
