"""Implements `memory_limit` for training: subtracts what the forward graph saves from the backward graph's limit.

A step's peak is the larger of two: the forward graph's peak, or what the forward graph leaves (results and saved
tensors) plus the backward graph's peak. If it is above the limit, torch's partitioner is asked to save less and less,
and to recompute more in the backward graph (torch._functorch.config.activation_memory_budget), until a plan is within
the limit.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cuesta.driver.make_program import plan
from cuesta.errors import CompileError, DeviceError, MemoryLimitError
from cuesta.frontend.capture.aot import partition
from cuesta.frontend.capture.donation import expected_arguments
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.reports.quantities import size_text
from cuesta.torch_private.configs import backward_at_once, memory_budget

log = logging.getLogger("cuesta")

#: Shares of the saved activations that the partitioner may keep, tried in this order.
BUDGETS = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0)


@dataclass
class StepMemory:
    """Divides a limit between the graphs that AOTAutograd makes of one Dynamo graph."""

    options: Options
    #: bytes that the forward graph leaves allocated for the backward graph
    left: int = 0

    @contextlib.contextmanager
    def share(self, kind: str) -> Iterator[Options]:
        """The options for a graph of this kind, with the graph's share of the limit. A MemoryLimitError within the
        context is raised again with the whole limit in its message."""
        if kind != "backward" or self.options.memory_limit is None:
            yield self.options
            return
        try:
            yield replace(self.options, memory_limit=max(self.options.memory_limit - self.left, 1))
        except MemoryLimitError as error:
            whole, left = size_text(self.options.memory_limit), size_text(self.left)
            raise MemoryLimitError(
                f"{error} (memory_limit is {whole}, of which the forward graph keeps {left})"
            ) from None

    def partition(self, joint: torch.fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> Any:
        """As `aot.partition`, but recomputes as much as the limit requires."""
        kwargs["options"] = self.options
        if self.options.memory_limit is None:
            return partition(joint, joint_inputs, **kwargs)
        tried: list[tuple[int, int, int, Any]] = []
        for position, budget in enumerate(BUDGETS):
            part = torch.fx.GraphModule(joint, _copied(joint.graph))
            with memory_budget(budget):
                forward, backward = partition(part, joint_inputs, **kwargs)
            donated = expected_arguments(forward, backward, kwargs["num_fwd_outputs"])
            peak, left = self._planned(forward, backward, donated)
            tried.append((peak, position, left, (forward, backward)))
            if peak <= self.options.memory_limit:
                break
        # If no budget is within the limit, the lowest peak is taken, and the compile raises the error.
        peak, position, self.left, graphs = min(tried, key=lambda entry: entry[:2])
        share = f"activation_memory_budget {BUDGETS[position]}"
        log.info("memory_limit: with %s a step takes %s", share, size_text(peak))
        return graphs

    def _planned(
        self, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, donated: Sequence[int]
    ) -> tuple[int, int]:
        """A step's peak and what the forward graph leaves, in bytes. Zeros if a graph cannot be planned; the compile
        then raises the error."""
        try:
            first = self._plan(forward, "forward", 0, ())
            second = self._plan(backward, "backward", first.kept_bytes, donated)
            return max(first.peak_bytes, first.kept_bytes + second.peak_bytes), first.kept_bytes
        except (CompileError, DeviceError) as problem:
            log.info("memory_limit: forward and backward cannot be planned together: %s", problem)
            return 0, 0

    def _plan(self, gm: torch.fx.GraphModule, kind: str, taken: int, donated: Sequence[int]) -> GraphReport:
        """Plans a graph within what `taken` leaves of the limit, or without a limit if no plan is within it."""
        assert self.options.memory_limit is not None
        for limit in (max(self.options.memory_limit - taken, 1), None):
            report = GraphReport(kind)
            with contextlib.suppress(MemoryLimitError):
                plan(gm, kind, replace(self.options, memory_limit=limit), report, donated)
                break
        return report


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy of a graph: the partitioner changes its input."""
    copied = torch.fx.Graph()
    found: Any = copied.graph_copy(graph, {}, return_output_node=True)
    results, output = found
    copied.output(results).meta = dict(output.meta)
    return copied


def at_once(options: Options) -> contextlib.AbstractContextManager[Any]:
    """Within this context the backward graph is compiled together with the forward graph and not at its first call, so
    that a memory limit is checked before either runs."""
    if options.memory_limit is None:
        return contextlib.nullcontext()
    patch: contextlib.AbstractContextManager[Any] = backward_at_once()
    return patch


def refuse_unplanned(kind: str, options: Options, reason: str) -> None:
    """Raises MemoryLimitError under a memory limit for a graph whose memory is not known before it runs."""
    if options.memory_limit is not None:
        raise MemoryLimitError(f"memory_limit: the memory of this {kind} graph is not known before it runs: {reason}")
