"""Compiles a model of the suite in eval, in training and at other batch sizes, and compares each with eager."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

import cuesta
from cuesta import compile_report
from cuesta.tools.accuracy import as_float64, check_close, named_tensors, neighbours
from cuesta.tools.bench.backends import one_line
from cuesta.tools.model_suite.case import SuiteCase, loss_of

BATCH = 3
OTHER_BATCHES = (4, 7)


@dataclass
class Counts:
    """What became of a model's graphs, as `cuesta.report()` tells it."""

    graphs: int = 0
    kernels: int = 0
    aten_calls: int = 0
    #: of those, the ones through Python
    python_calls: int = 0
    breaks: int = 0
    #: of the first call, with nothing in the cache
    seconds: float = 0.0
    fallbacks: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """What a way of running a model gave; `wrong` says how it is not eager's, or what was raised."""

    counts: Counts
    wrong: str | None = None


def check_case(case: SuiteCase, ways: Mapping[str, Callable[[SuiteCase], Counts]] | None = None) -> dict[str, Verdict]:
    """A verdict for each of the ways: "eval", "training", "batch sizes"."""
    verdicts = {}
    for name, run in (ways or WAYS).items():
        torch._dynamo.reset()
        compile_report.clear()
        counters.clear()
        try:
            # By default Dynamo leaves nn.LSTM and its kin to eager.
            with torch._dynamo.config.patch(allow_rnn=True):
                verdicts[name] = Verdict(run(case))
        except Exception as error:
            verdicts[name] = Verdict(Counts(), one_line(error))
    return verdicts


def run_eval(case: SuiteCase) -> Counts:
    """One call in eval mode. Raises AssertionError where its results are further from float64 than eager's."""
    module, inputs = _make(case)
    module.eval()
    wide, wide_inputs = as_float64(module, inputs)
    with torch.no_grad():
        expected, exact = module(**inputs), wide(**wide_inputs)
        compiled = torch.compile(module, backend="cuesta", options={"cache": False})
        with _counted() as counts:
            actual = compiled(**inputs)
        again = compiled(**inputs)
    for outputs in (actual, again):
        check_close(named_tensors(outputs), named_tensors(expected), named_tensors(exact), what="outputs")
    return counts


def run_training(case: SuiteCase) -> Counts:
    """One forward and backward in training mode: outputs, gradients, buffers."""
    module, inputs = _make(case)
    wide, wide_inputs = as_float64(module, inputs)
    exact = _step(wide, wide, wide_inputs)
    nearby = [_step(m, m, i) for m, i in neighbours(module, inputs)]
    eager = copy.deepcopy(module)
    expected = _step(eager, eager, inputs)
    with _counted() as counts:
        actual = _step(module, torch.compile(module, backend="cuesta", options={"cache": False}), inputs)
    for part, what in enumerate(("outputs", "gradients", "buffers")):
        others = [step[part] for step in nearby]
        check_close(actual[part], expected[part], exact[part], what=what, nearby=others)
    return counts


def run_batch_sizes(case: SuiteCase) -> Counts:
    """Three batch sizes in eval: `graphs` of the counts says how many Dynamo compiled; two are right, one of any size.

    More only where Dynamo breaks the model's graph.
    """
    module, _ = _make(case)
    module.eval()
    counter = CompileCounterWithBackend("cuesta")
    compiled = torch.compile(module, backend=counter)
    with _counted() as counts, torch.no_grad():
        for batch in (BATCH, *OTHER_BATCHES):
            inputs = dict(case.inputs(batch))
            wide, wide_inputs = as_float64(module, inputs)
            expected, exact = named_tensors(module(**inputs)), named_tensors(wide(**wide_inputs))
            check_close(named_tensors(compiled(**inputs)), expected, exact, what=f"outputs of a batch of {batch}")
    counts.graphs = counter.frame_count
    return counts


WAYS: Mapping[str, Callable[[SuiteCase], Counts]] = {
    "eval": run_eval,
    "training": run_training,
    "batch sizes": run_batch_sizes,
}


def _make(case: SuiteCase) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    return case.module(), dict(case.inputs(BATCH))


def _step(module: nn.Module, run: Callable[..., Any], inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    outputs = run(**inputs)
    loss_of(outputs).backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return named_tensors(outputs), gradients, dict(module.named_buffers())


@contextmanager
def _counted() -> Iterator[Counts]:
    """Counts, filled when the block ends."""
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
    counts.fallbacks = [g.fallback for g in graphs if g.fallback]
    counts.breaks = sum(counters["graph_break"].values())
