"""Defines fixtures that trace and import a Python function into the cuesta dialect, as torch.compile does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, aot_module, make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified

from cuesta.dialects import make_context, verify, walk
from cuesta.dialects.reference import run_in_place
from cuesta.driver.calling import bind
from cuesta.frontend.capture.aot import partition
from cuesta.frontend.decompositions.table import decompositions
from cuesta.frontend.fx_passes.logsumexp_types import type_logsumexps
from cuesta.frontend.importer import ImportedGraph, import_graph
from cuesta.options import Options
from cuesta.targets import parse_target


@dataclass
class Run:
    """One captured graph."""

    graph: ImportedGraph

    def ops(self) -> list[str]:
        """The names of the ops of @graph, in order."""
        return [op.name for op in walk(self.graph.module.operation) if op.name not in ("func.func", "func.return")]

    def reasons(self) -> dict[str, str]:
        """Overload → reason of each call into ATen."""
        calls = [op for op in walk(self.graph.module.operation) if op.name == "aten.call"]
        return {op.attributes["overload"].value: op.attributes["reason"].value for op in calls}

    def execute(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph like a compiled program: returns its results, and writes the arguments that it mutates."""
        return run_in_place(self.graph.module, tensors)


@dataclass
class Capture:
    """Traces functions. `runs` holds the graphs of the last function: one for inference, or forward and backward."""

    runs: list[Run] = field(default_factory=list)
    #: Changes Dynamo's graph before AOTAutograd traces it.
    rewrite: Callable[[torch.fx.GraphModule], None] = lambda gm: None

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, compiled: Dynamo and AOTAutograd trace the function, and the reference runner runs the graphs."""
        torch._dynamo.reset()
        self.runs.clear()

        def compiler(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
            type_logsumexps(gm)  # torch before 2.13 traces another than the kernel gives; stages mend it
            run = Run(import_graph(gm))
            verify(run.graph.module, "import")
            self.runs.append(run)
            return bind(run.execute, run.graph.convention, gm)

        def backend(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
            self.rewrite(gm)
            return aot_module_simplified(
                gm,
                examples,
                fw_compiler=compiler,
                bw_compiler=compiler,
                inference_compiler=compiler,
                decompositions={},
                keep_inference_input_mutations=True,
            )

        return torch.compile(function, backend=backend, fullgraph=True, dynamic=False)

    @property
    def run(self) -> Run:
        (only,) = self.runs
        return only


@pytest.fixture
def capture() -> Iterator[Capture]:
    with make_context():
        yield Capture()
    torch._dynamo.reset()


@pytest.fixture
def matches_eager(capture: Capture) -> Callable[..., Run]:
    """Runs a function as imported and in eager on the same inputs; returns the graph after comparing."""

    def check(function: Callable[..., Any], *inputs: Any, atol: float | None = None, rtol: float | None = None) -> Run:
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        expected = function(*copies)
        actual = capture.compile(function)(*inputs)
        torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol, equal_nan=True)
        # The inputs are compared too, because the function may write to them.
        torch.testing.assert_close(list(inputs), copies, atol=atol, rtol=rtol, equal_nan=True)
        return capture.runs[0]

    return check


@pytest.fixture(scope="session")
def split() -> Callable[..., tuple[Callable[..., Any], list[torch.fx.Graph]]]:
    """Splits a function or a module by `partition` into a forward and a backward graph. Returns the function that runs
    the graphs op by op, and a list that holds the graphs after calls of the function."""

    def in_two(
        function: Callable[..., Any], target: str | None = None
    ) -> tuple[Callable[..., Any], list[torch.fx.Graph]]:
        graphs: list[torch.fx.Graph] = []
        options = Options(target=None if target is None else parse_target(target))

        def keep(module: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
            graphs.append(module.graph)
            return make_boxed_func(module.forward)

        around = aot_module if isinstance(function, torch.nn.Module) else aot_function
        return around(function, keep, keep, functools.partial(partition, options=options), decompositions()), graphs

    return in_two


@pytest.fixture
def accepted() -> Callable[..., list[Any]]:
    """Selects the ops that eager runs on the given arguments, because not every op takes every dtype."""

    def choose(ops: Iterable[Any], *arguments: Any, **named: Any) -> list[Any]:
        return [op for op in ops if runs(op, *arguments, **named)]

    def runs(op: Any, *arguments: Any, **named: Any) -> bool:
        try:
            op(*arguments, **named)
        except (RuntimeError, TypeError, IndexError):
            return False
        return True

    return choose
