"""Judges one torch program: compares outputs, gradients and written arguments of each compiled call with eager."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuesta.dialects.reference import with_strides
from cuesta.frontend.capture.tensor_cores import without_tf32
from cuesta.reports import compile_report
from cuesta.tools.accuracy import same_form, wide_defaults
from cuesta.tools.fuzz.compiling import Backend, Compiled, checking
from cuesta.tools.fuzz.failure import Failure, Note, Unjudged, Verdict, kind_of
from cuesta.tools.fuzz.programs.program import Program, Run, Spec, copies, input_tensors
from cuesta.tools.fuzz.rounding import Reference
from cuesta.torch_private.aot_graphs import make_boxed_func
from cuesta.torch_private.decompositions import core_aten_decompositions
from cuesta.torch_private.dynamo import aot_autograd
from cuesta.torch_private.fake_tensors import FakeTensorMode

Tensor = torch.Tensor

_WIDE = dict.fromkeys(("float32", "bfloat16", "float16"), "float64")
_NARROW = re.compile(r"torch\.(float32|bfloat16|float16)\b|\.float\(\)")


def check_program(text: str, checked: bool = False) -> Verdict:
    """A Failure if the compiled program differs from eager. For a correct program that is called with several sizes, a
    Note that says how many compiled programs the sizes took. Raises Unjudged if eager fails, or if tracing alone fails
    or changes a result. `checked`: the program is compiled to check each memory access."""
    program = Program.read(text)
    with warnings.catch_warnings(), without_tf32():
        warnings.simplefilter("ignore")
        wanted, traced = _in_torch(program, text)
        with _told_sizes() as told:
            actual = _Compiled(program, checking if checked else "cuesta", wanted)
        if actual.problem is not None:  # any exception of the compiler or of the compiled program is a failure
            return Failure.of(actual.problem)
        for each, run, form in zip(wanted, actual.runs, traced.runs, strict=True):
            failure = _check_form(run, form, each) or each.compare(run)
            if failure is not None:
                return failure
    return _check_sizes(actual, traced, told) if program.dynamic != "no" else None


def run_in_torch(text: str) -> None:
    """Runs only the reference of a program: eager and AOTAutograd's graph. Raises Unjudged if the reference fails."""
    with warnings.catch_warnings(), without_tf32():
        warnings.simplefilter("ignore")
        _in_torch(Program.read(text), text)


def _in_torch(program: Program, text: str) -> tuple[list[Wanted], _Compiled]:
    try:
        wanted = [Wanted.of(program, text, specs) for specs in program.calls]
    except Exception as problem:  # an op may refuse its operands with any exception
        raise Unjudged(f"eager raised {type(problem).__name__}: {problem}") from problem
    # AOTAutograd changes some strides (after masked_fill_), so strides are compared with its graph, not with eager.
    traced = _Compiled(program, "aot_eager", wanted)
    if traced.problem is not None:
        raise Unjudged(f"tracing raised {type(traced.problem).__name__}: {traced.problem}") from traced.problem
    if any(each.compare(run) is not None for each, run in zip(wanted, traced.runs, strict=True)):
        raise Unjudged("tracing changes what the program computes")  # AOTAutograd loses zero_() of f64 scalars
    return wanted, traced


@dataclass
class Wanted:
    """The results of one call in eager, with what `compare` needs to judge others by."""

    program: Program
    tensors: list[Tensor]
    expected: Run
    reference: Reference

    @staticmethod
    def of(program: Program, text: str, specs: Sequence[Spec]) -> Wanted:
        tensors = input_tensors(specs, program.gradient, program.device)

        def run() -> Run:
            return program.run(program.function, copies(tensors))

        expected = run()
        exact = _exact(text, specs) or expected
        return Wanted(program, tensors, expected, Reference(lambda: run().tensors, expected.tensors, exact.tensors))

    def compare(self, actual: Run) -> Failure | None:
        return self.reference.compare(actual.tensors)


@dataclass
class _Compiled:
    """The program compiled by a backend, and the results of all its calls in order."""

    program: Program
    backend: Backend
    wanted: list[Wanted]
    runs: list[Run] = field(default_factory=list)
    #: after each call: the number of graphs that Dynamo has passed to the backend so far, and of programs compiled
    graphs: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    problem: Exception | None = None

    def __post_init__(self) -> None:
        program = self.program
        dynamic = {"no": False, "all": True, "marked": None}[program.dynamic]
        marked = program.marked() if program.dynamic == "marked" else []
        compiled = Compiled.of(program.function, self.backend, dynamic, marked)
        try:
            for each in self.wanted:
                self.runs.append(program.run(compiled.function, copies(each.tensors)))
                self.graphs.append(compiled.graphs)
                self.programs.append(len(compile_report.report().graphs))
        except Exception as problem:
            self.problem = problem


class _Kept(logging.Handler):
    """Keeps the compiler's log records about graphs that it cannot compile for all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "each set of sizes" in record.msg:
            self.records.append(record)


@contextlib.contextmanager
def _told_sizes() -> Iterator[list[logging.LogRecord]]:
    handler, log = _Kept(), logging.getLogger("cuesta")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler.records
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _check_sizes(actual: _Compiled, traced: _Compiled, told: Sequence[logging.LogRecord]) -> Verdict:
    """A Failure if the backend gets other numbers of graphs than under torch alone, or if a compiler stage fails on
    symbolic sizes. Otherwise a Note on how many programs the sizes took."""
    if actual.graphs != traced.graphs:
        return Failure("compiled again", f"graphs after each call: {actual.graphs}; torch alone: {traced.graphs}")
    for record in told:
        assert isinstance(record.args, tuple)
        problem = record.args[1]
        assert isinstance(problem, Exception)
        if record.levelno >= logging.WARNING:  # no stage should fail on symbolic sizes
            return Failure(f"symbolic: {kind_of(problem)}", str(problem))
        return Note(f"a program for each set of sizes: {kind_of(problem)}")
    if actual.graphs[0] != actual.graphs[-1]:
        return Note("Dynamo itself compiles again")
    if actual.programs[0] != actual.programs[-1]:
        return Note("one more program: a comparison of sizes in the code had another result")
    return Note("one program for all sizes")


def _check_form(actual: Run, traced: Run, wanted: Wanted) -> Failure | None:
    if actual.tensors.keys() != traced.tensors.keys():
        found, wanted_names = (", ".join(run.tensors) for run in (actual, traced))
        return Failure("wrong results", f"there are {found}; there should be {wanted_names}")
    for name, want in traced.tensors.items():
        for problem in same_form(name, actual.tensors[name], want):
            if actual.tensors[name].stride() not in (strides.get(name) for strides in _torchs_strides(wanted)):
                return Failure("wrong form", problem)
    shared = set(actual.shared) - set(traced.shared)
    if shared:
        return Failure("shared memory", f"{sorted(shared)} share memory")
    # Tensors that alias in eager and in AOTAutograd's graph must alias here: a later write to one shows in the other.
    apart = (set(wanted.expected.shared) & set(traced.shared)) - set(actual.shared)
    return Failure("memory apart", f"{sorted(apart)} share memory in eager, but not here") if apart else None


def _torchs_strides(wanted: Wanted) -> Iterator[dict[str, tuple[int, ...]]]:
    """Strides by result name that torch's tracing predicts, and that torch's kernels may not give: the strides of fake
    tensors (positions in a tensor with gaps), and those after decomposition into core ATen ops (logaddexp)."""
    program = wanted.program
    given = [x.detach() for x in copies(wanted.tensors)]
    with FakeTensorMode() as mode, contextlib.suppress(RuntimeError):  # fake tensors refuse data-dependent ops
        with torch.device(program.device):
            outputs = program.function(*(mode.from_tensor(x) for x in given))
        yield {f"output {i}": x.stride() for i, x in enumerate(outputs)}
    told = _Compiled(program, aot_autograd(fw_compiler=_as_told, decompositions=core_aten_decompositions()), [wanted])
    yield from ({name: x.stride() for name, x in run.tensors.items()} for run in told.runs)


def _as_told(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Runs a graph of AOTAutograd in eager, and gives the results the strides that the graph states."""
    (told,) = (node.args[0] for node in gm.graph.find_nodes(op="output"))

    def run(*arguments: Any) -> list[Any]:
        results = torch.fx.Interpreter(gm).run(*arguments)
        return [
            with_strides(x.contiguous(), y.meta["val"].stride()) if isinstance(x, Tensor) else x
            for x, y in zip(results, told, strict=True)
        ]

    boxed: Callable[..., Any] = make_boxed_func(run)
    return boxed


def _exact(text: str, specs: Sequence[Spec]) -> Run | None:
    """A run of the program with all floats in float64; None if torch refuses that."""
    wide = Program.read(_NARROW.sub(lambda m: "torch.float64" if m[1] else ".double()", text))
    inputs = [(sizes, strides, _WIDE.get(dtype, dtype)) for sizes, strides, dtype in specs]
    # Converts the narrow inputs, so that the numbers are the same.
    tensors = [
        x.to(getattr(torch, name)).requires_grad_(wide.gradient and x.is_floating_point())
        for x, (_, _, name) in zip(input_tensors(specs, False, wide.device), inputs, strict=True)
    ]
    # Integers become the default dtype in a sigmoid or a mean.
    with wide_defaults(), contextlib.suppress(RuntimeError):
        return wide.run(wide.function, tensors)
    return None
