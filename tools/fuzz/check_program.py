"""Judges one torch program: compiled against eager, outputs, gradients and written arguments, in each of its calls."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend
from torch._subclasses.fake_tensor import FakeTensorMode

from cuesta import compile_report
from cuesta.dialects.reference import with_strides
from cuesta.tools.accuracy import compare_values, same_form
from cuesta.tools.fuzz.failure import Failure, Note, Verdict, kind_of
from cuesta.tools.fuzz.program import Function, Program, Run, Spec, copies, input_tensors

Tensor = torch.Tensor

#: Runs of eager on inputs that are moved within their last place, which show what rounding decides.
NEIGHBOURS = 3
_WIDE = dict.fromkeys(("float32", "bfloat16", "float16"), "float64")
_NARROW = re.compile(r"torch\.(float32|bfloat16|float16)\b|\.float\(\)")


def check_program(text: str) -> Verdict:
    """A Failure where the compiled program does not what eager does. Of one that is called with several sizes that is
    right, a Note says how many programs these took. Raises where eager fails, or tracing alone does harm."""
    program = Program.read(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [_Wanted.of(program, text, specs) for specs in program.calls]
        # AOTAutograd changes strides here and there (of what masked_fill_ wrote): its graph, not eager, is to be met.
        traced = _Compiled(program, "aot_eager", wanted)
        if traced.problem is not None:
            raise traced.problem
        if any(each.compare(run) is not None for each, run in zip(wanted, traced.runs, strict=True)):
            raise ValueError("torch's own tracing changes what the program computes")  # it loses zero_() of f64 scalars
        with _told_sizes() as told:
            actual = _Compiled(program, "cuesta", wanted)
    if actual.problem is not None:  # whatever the compiler or its program raises is what is looked for
        return Failure.of(actual.problem)
    for each, run, form in zip(wanted, actual.runs, traced.runs, strict=True):
        failure = _check_form(run, form, program, each) or each.compare(run)
        if failure is not None:
            return failure
    return _check_sizes(actual, traced, told) if program.dynamic != "no" else None


@dataclass
class _Wanted:
    """What one call gives in eager, in float64, and in eager near by."""

    tensors: list[Tensor]
    expected: Run
    exact: Run
    near: list[Run]

    @staticmethod
    def of(program: Program, text: str, specs: Sequence[Spec]) -> _Wanted:
        tensors = input_tensors(specs, program.gradient, program.device)
        expected = program.run(program.function, copies(tensors))
        near = [program.run(program.function, _moved(tensors, seed)) for seed in range(NEIGHBOURS)]
        return _Wanted(tensors, expected, _exact(text, specs) or expected, near)

    def compare(self, actual: Run) -> Failure | None:
        for name, want in self.expected.tensors.items():
            eagers = [want, *(run.tensors[name] for run in self.near)]
            wrong = compare_values(name, actual.tensors[name], eagers, self.exact.tensors[name])
            if wrong is not None:
                return Failure("wrong value", wrong)
        return None


@dataclass
class _Compiled:
    """The program under a backend: all its calls, one after another."""

    program: Program
    backend: str
    wanted: list[_Wanted]
    runs: list[Run] = field(default_factory=list)
    #: graphs that Dynamo had handed over after each call, and the programs that they became
    graphs: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    problem: Exception | None = None

    def __post_init__(self) -> None:
        torch._dynamo.reset()
        compile, count = lookup_backend(self.backend), 0

        def counted(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            nonlocal count
            count += 1
            return compile(gm, inputs)

        dynamic = {"no": False, "all": True, "marked": None}[self.program.dynamic]
        function = _marking(self.program, torch.compile(self.program.function, backend=counted, dynamic=dynamic))
        try:
            for each in self.wanted:
                self.runs.append(self.program.run(function, copies(each.tensors)))
                self.graphs.append(count)
                self.programs.append(len(compile_report.report().graphs))
        except Exception as problem:
            self.problem = problem


def _marking(program: Program, function: Function) -> Function:
    if program.dynamic != "marked":
        return function
    dims = program.marked()

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        for i, dim in dims:
            torch._dynamo.maybe_mark_dynamic(tensors[i], dim)
        return function(*tensors)

    return call


class _Kept(logging.Handler):
    """Keeps what the compiler says of graphs that it cannot compile for all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "each set of sizes" in record.msg:
            self.records.append(record)


@contextmanager
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
    """One graph serves every size that Dynamo's guards admit, in as few programs as the compiler says."""
    if actual.graphs != traced.graphs:
        return Failure("compiled again", f"graphs after each call: {actual.graphs}; torch alone: {traced.graphs}")
    for record in told:
        assert isinstance(record.args, tuple)
        problem = record.args[1]
        assert isinstance(problem, Exception)
        if record.levelno >= logging.WARNING:  # no level should stumble over symbols
            return Failure(f"symbolic: {kind_of(problem)}", str(problem))
        return Note(f"a program for each set of sizes: {kind_of(problem)}")
    if actual.graphs[0] != actual.graphs[-1]:
        return Note("Dynamo itself compiles again")
    if actual.programs[0] != actual.programs[-1]:
        return Note("one more program: what the code compares of the sizes came out otherwise")
    return Note("one program for all sizes")


def _check_form(actual: Run, traced: Run, program: Program, wanted: _Wanted) -> Failure | None:
    if actual.tensors.keys() != traced.tensors.keys():
        found, wanted_names = (", ".join(run.tensors) for run in (actual, traced))
        return Failure("wrong results", f"there are {found}; there should be {wanted_names}")
    for name, want in traced.tensors.items():
        for problem in same_form(name, actual.tensors[name], want):
            if actual.tensors[name].stride() != _fake_strides(program, wanted).get(name):
                return Failure("wrong form", problem)
    # Two views of one intermediate result may become two tensors: only sharing too much is looked for.
    shared = set(actual.shared) - set(traced.shared)
    return Failure("shared memory", f"{sorted(shared)} share memory") if shared else None


def _fake_strides(program: Program, wanted: _Wanted) -> dict[str, tuple[int, ...]]:
    """The strides that torch's fake tensors have: the compiler has only those, and here and there (positions in a
    tensor with gaps) torch's kernels give others."""
    given = [x.detach() for x in copies(wanted.tensors)]
    with FakeTensorMode() as mode:
        try:
            with torch.device(program.device):
                outputs = program.function(*(mode.from_tensor(x) for x in given))
        except RuntimeError:  # what depends on the data
            return {}
    return {f"output {i}": x.stride() for i, x in enumerate(outputs)}


def _exact(text: str, specs: Sequence[Spec]) -> Run | None:
    """The program in float64 throughout; None where torch refuses that."""
    wide = Program.read(_NARROW.sub(lambda m: "torch.float64" if m[1] else ".double()", text))
    inputs = [(sizes, strides, _WIDE.get(dtype, dtype)) for sizes, strides, dtype in specs]
    # From the numbers that the narrow inputs hold.
    tensors = [
        x.to(getattr(torch, name)).requires_grad_(wide.gradient and x.is_floating_point())
        for x, (_, _, name) in zip(input_tensors(specs, False, wide.device), inputs, strict=True)
    ]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # which whole numbers become in a sigmoid or a mean
    try:
        return wide.run(wide.function, tensors)
    except RuntimeError:
        return None
    finally:
        torch.set_default_dtype(default)


def _moved(tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    moved = copies(tensors)
    for i, x in enumerate(moved):
        if x.is_floating_point():
            errors = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
            numbers = (x.detach() * (1 + torch.finfo(x.dtype).eps * errors.to(x.device))).to(x.dtype).contiguous()
            moved[i] = with_strides(numbers, x.stride()).requires_grad_(x.requires_grad)
    return moved
