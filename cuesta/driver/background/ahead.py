"""Compiles a training step's backward graph in another process, while this process compiles the forward graph.

    this process    trace   split | forward graph: passes, code   | runs forward | loads the program | runs backward
    the worker              start | backward graph: passes, code ...................

AOTAutograd asks for the backward program when the backward pass first runs. If the graph that it has then has the same
key in the cache as the graph that the worker got, the worker's program is loaded. If not, or if the worker failed, this
process compiles the graph.
"""

from __future__ import annotations

import copy
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule

from cuesta.driver.background.tiered import program_of, reason_of_options, reason_to_stay, request_for
from cuesta.driver.loading import MadeProgram
from cuesta.driver.make_program import Wanted, look_up
from cuesta.driver.pieces import steps_to_cut_at
from cuesta.driver.specialise import is_symbolic
from cuesta.driver.uploads import take_uploads
from cuesta.errors import CuestaError
from cuesta.frontend.capture.aot import is_trained
from cuesta.frontend.capture.donation import donated_arguments
from cuesta.frontend.convention import Convention
from cuesta.frontend.fx_pipelines import ATEN
from cuesta.frontend.source_lines import numbers_of
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.torch_private.configs import repro_after, suppresses_errors
from cuesta.torch_private.fake_tensors import unset_fake_temporarily

if TYPE_CHECKING:
    from cuesta.driver.background.service import Answer

log = logging.getLogger("cuesta")

#: The least number of nodes of a backward graph. The passes over one with 330 (ResNet-18) take 2 s, and the worker
#: takes 4 s to import torch. Those over one with 1,000 take 4 to 8 s.
LEAST_NODES = 500
#: The least number of ops that Dynamo captured. The worker is started before AOTAutograd traces them. They become 2.5
#: nodes (GPT-2) to 8 nodes (LCNet) of the backward graph each.
LEAST_CAPTURED = 120
#: The least number of processors that this process may use.
LEAST_PROCESSORS = 2


@dataclass
class Ahead:
    """The backward graph of one training step. None of the methods raises an error for what fails in the worker."""

    options: Options
    _backward: GraphModule | None = None
    _begun: _Begun | None = None
    _has_prepared: bool = False

    def prepare(self, captured: GraphModule, example_inputs: Sequence[Any]) -> None:
        """Starts the worker if the graph that Dynamo captured is large and is trained."""
        ops = sum(node.op != "placeholder" for node in captured.graph.nodes)
        if is_trained(example_inputs) and ops >= LEAST_CAPTURED and self._is_worth_it():
            from cuesta.driver.background.service import running_service

            self._has_prepared = True
            _unless_it_fails(running_service().warm_up)

    def dismiss(self) -> None:
        """Ends a worker that was started in vain: a cache had the programs, or the backward graph is small."""
        if self._has_prepared and self._begun is None:
            from cuesta.driver.background.service import running_service

            running_service().dismiss()

    def watched(self, partition: Callable[..., Any]) -> Callable[..., Any]:
        """A function that splits joint graphs, which remembers the backward graph."""

        def split(*args: Any, **kwargs: Any) -> Any:
            graphs = partition(*args, **kwargs)
            self._backward = graphs[1]
            return graphs

        return split

    def begin(self, with_uploads: bool) -> None:
        """Hands the backward graph to the worker, once AOTAutograd has said which arguments it donates. `with_uploads`
        says that uploads are taken out of the graph when it is compiled (`take_uploads`)."""
        backward, self._backward = self._backward, None
        if backward is not None and len(backward.graph.nodes) >= LEAST_NODES and self._is_worth_it():
            _unless_it_fails(lambda: self._submit(backward, with_uploads))

    def take(self, wanted: Wanted, report: GraphReport) -> MadeProgram | None:
        """The program of a graph; fills the report. None if no other process has compiled it."""
        begun, self._begun = self._begun, None
        if begun is None or begun.wanted.cache.key != wanted.cache.key or begun.job.withdraw():
            return None
        with report.timed("wait for the other process"):
            begun.job.over.wait()
        if begun.answer is None:
            return None
        try:
            made = program_of(begun.answer, wanted, begun.convention, numbers_of(wanted.gm), report)
        except CuestaError as error:
            log.info("the backward graph is compiled in this process, because the other one failed: %s", error)
            return None
        report.elsewhere = "in another process, while this one compiled the forward graph"
        return made

    def _is_worth_it(self) -> bool:
        """Whether the options allow another process, and a processor is free for it: the load of all other processes
        is below half of the processors."""
        if self.options.tiered or self.options.max_autotune or reason_of_options(self.options) is not None:
            return False
        if repro_after() is not None or suppresses_errors():
            return False
        processors = len(os.sched_getaffinity(0))
        return processors >= LEAST_PROCESSORS and _load() - 1 < processors / 2

    def _submit(self, backward: GraphModule, with_uploads: bool) -> None:
        from cuesta.driver.background.service import running_service

        with unset_fake_temporarily():
            gm = copy.deepcopy(backward)  # AOTAutograd copies it too
        report = GraphReport("backward")
        donated = donated_arguments(gm)
        if with_uploads:
            take_uploads(gm)
        ATEN.run(gm, self.options)
        if is_symbolic(gm) or steps_to_cut_at(gm) is not None:
            return
        wanted = look_up(gm, "backward", self.options, report, donated)
        if isinstance(wanted, MadeProgram) or reason_to_stay(wanted) is not None:
            return
        begun = self._begun = _Begun(wanted, *request_for(wanted))
        running_service().submit(begun.job)


class _Begun:
    """A graph that the worker has been asked for."""

    def __init__(self, wanted: Wanted, convention: Convention, request: bytes) -> None:
        from cuesta.driver.background.service import Job

        self.wanted, self.convention = wanted, convention
        self.answer: Answer | None = None
        self.job = Job(request, self._finish, self._fail)

    def _finish(self, answer: Answer) -> None:
        self.answer = answer

    def _fail(self, reason: str) -> None:
        log.info("the backward graph is compiled in this process: %s", reason)


def _load() -> float:
    """How many processes wanted a processor in the last minute, on average. Infinite if the system does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return math.inf


def _unless_it_fails(begin: Callable[[], None]) -> None:
    """Calls `begin` and logs its error. The compile in this process, which then follows, raises the same error to the
    user."""
    try:
        begin()
    except CuestaError as error:
        log.info("no other process compiles the backward graph: %s", error)
