"""Implements `options={"tiered": True}`: the first call does not wait for the compiler.

A program in the cache is used at once. Otherwise the graph is imported, which takes a tenth of a second for a thousand
ops, and handed to another process (service.py). Until the answer arrives the graph runs op by op in ATen; then its
program takes over between two calls. Both compute the same but for rounding: the program is made of the same ops, and
the results have the traced strides.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cuesta.driver.autotune.machine_trial import decide_kinds
from cuesta.driver.calling import Boxed, as_boxed
from cuesta.driver.dump.logs import tell_report
from cuesta.driver.loading import MadeProgram
from cuesta.driver.make_program import Wanted, compile_program, import_program, load_and_keep
from cuesta.driver.op_by_op import op_by_op
from cuesta.errors import CompileError
from cuesta.frontend.convention import Convention
from cuesta.frontend.source_lines import numbers_of
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.torch_private.ops import OpOverload

log = logging.getLogger("cuesta")

#: Namespaces of ops that the worker process knows too.
_KNOWN = frozenset({"aten", "prims", "prim", "cuesta", "_c10d_functional", "_c10d_functional_autograd", "quantized"})

if TYPE_CHECKING:
    from cuesta.driver.background.service import Answer

Ready = Callable[[MadeProgram], Boxed]


def begin_program(wanted: Wanted, report: GraphReport, whole: bool) -> MadeProgram | FirstTier:
    """The program of a graph if it must be made at once (the report says why), else its first tier.

    `whole` says that the code itself is wanted now. Raises what compile_program does.
    """
    options = wanted.options
    reason = "torch is to keep the code" if whole else reason_to_stay(wanted)
    if reason is not None:
        report.tier = f"full, at the first call: {reason}"
        if wanted.unknown:
            wanted = wanted.decided(decide_kinds(wanted.unknown, options, report))
        return compile_program(wanted, report)
    started = time.perf_counter()
    convention, request = request_for(wanted)
    report.times["import"] = time.perf_counter() - started
    report.tier = "first: op by op, while the program is compiled in another process"
    return FirstTier(wanted, convention, report, request)


def request_for(wanted: Wanted) -> tuple[Convention, bytes]:
    """Imports a graph. Returns its calling convention and the request to the worker, as bytes. Raises Unsupported."""
    from cuesta.driver.background.worker import request_of

    convention, module, assumed = import_program(wanted)
    threads = torch.get_num_threads()
    return convention, request_of(module, wanted.kind, wanted.options, assumed, wanted.unknown, threads)


def reason_of_options(options: Options) -> str | None:
    """Why no program with these options can be made in another process. None if some can."""
    if options.dump is not None:
        return "a dump needs every stage in this process"
    if options.memory_limit is not None:
        return "memory_limit applies to the first call too"
    if not sys.executable:
        return "sys.executable is empty, so no other process can be started"
    return None


def reason_to_stay(wanted: Wanted) -> str | None:
    """Why a program cannot be made in another process. None if it can."""
    reason = reason_of_options(wanted.options)
    if reason is not None:
        return reason
    if wanted.target.kind == "tt":
        return "target tt is only for tests"
    if wanted.options.max_autotune and wanted.target.gpu:
        return "max_autotune times kernels on the GPU that the first tier would use"
    targets = [node.target for node in wanted.gm.graph.nodes if node.op == "call_function"]
    others = {t.namespace for t in targets if isinstance(t, OpOverload)} - _KNOWN
    return f"another process would lack the ops of {', '.join(sorted(others))}" if others else None


def program_of(
    answer: Answer, wanted: Wanted, convention: Convention, numbers: Mapping[str, int], report: GraphReport
) -> MadeProgram:
    """Loads and keeps the program that another process has compiled; fills the report. Raises CompileError where that
    process failed, and what `load_and_keep` does."""
    head, code = answer
    if "error" in head:
        raise CompileError(head["error"])
    if wanted.unknown:
        wanted = wanted.decided(head["decided"])
        report.products = head["products"]
    artefact = Artefact.from_bytes(code)
    program = load_and_keep(artefact, wanted, convention, numbers, report)
    report.take_program(artefact.metadata["report"])
    report.times.update(head["times"])
    return MadeProgram(program, convention, wanted.cache.key, lambda: artefact)


@dataclass(frozen=True)
class FirstTier:
    """A graph that runs op by op until its program is ready."""

    wanted: Wanted
    convention: Convention
    report: GraphReport
    request: bytes

    def start(self, ready: Ready) -> Boxed:
        """Starts the background compile and returns a boxed callable. `ready` makes a boxed callable of the program, in
        another thread."""
        from cuesta.driver.background.service import Job, running_service

        run = op_by_op(self.wanted.gm, self.convention.sources)

        @as_boxed
        def call(args: list[Any]) -> list[Any]:
            return run(args)

        began, numbers = time.perf_counter(), numbers_of(self.wanted.gm)

        def finish(answer: Answer) -> None:
            nonlocal run
            second = ready(program_of(answer, self.wanted, self.convention, numbers, self.report))
            seconds = time.perf_counter() - began
            kept = "" if self.wanted.options.cache_root else "; without a cache the next process compiles anew"
            self.report.tier = f"full: after {seconds:.1f} s in the background{kept}"
            run = second
            tell_report(self.report)

        def fail(reason: str) -> None:
            self.report.tier = f"first, until this process ends: op by op: {reason}"
            log.warning("a %s graph stays at its first tier, op by op: %s", self.report.name, reason)

        try:
            running_service().submit(Job(self.request, finish, fail))
        except CompileError as error:
            fail(str(error))
        return call
