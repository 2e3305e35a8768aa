"""Judges one sample: compares compiled results with eager's, forward and backward."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

import cuesta
from cuesta.tools.accuracy import compare_values, largest_error, same_form, wide_defaults
from cuesta.tools.op_coverage.entries import UNINITIALISED, Unit, entries
from cuesta.tools.op_coverage.positions import name_equals
from cuesta.tools.op_coverage.sample import Run, Sample
from cuesta.torch_private.dynamo import BackendCompilerFailed, TorchDynamoException

#: "refused": torch's eager or its backend aot_eager raises too, or tracing alone changes the values.
Verdict = Literal["right", "wrong", "raised", "refused"]

#: Target → options of cuesta's backend.
_OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"cache": False},
    "tt": {"cache": False, "target": "tt"},
    # So that random numbers are those of eager.
    "cuda": {"cache": False, "fallback_random": True},
}
#: Number of eager runs on arguments moved within their last place, which show the influence of rounding.
NEIGHBOURS = 3
#: If eager and f64 differ by more than this share of the largest value, f64 computes something else (such as other
#: random numbers) and is not used.
_ANOTHER = {torch.bfloat16: 0.25}
_ANOTHER_BY_DEFAULT = 0.05


@dataclass(frozen=True)
class Checked:
    """The result of a sample. `gradient` is None if the sample has no gradients."""

    forward: Verdict
    gradient: Verdict | None = None
    message: str = ""
    #: graphs that Dynamo passed to cuesta; 0 if it leaves the operator to eager
    graphs: int = 0
    #: overload and reason of each call into ATen, in forward and backward
    calls: list[tuple[str, str]] = field(default_factory=list)
    #: values differ by more than torch.testing allows, so that the comparison with f64 decided
    by_f64: bool = False


def check(unit: Unit, index: int) -> Checked:
    """Judges one sample of a unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _check(unit, Sample.of(_samples(unit)[index]), entries()[unit.entry].get_op())


def count(unit: Unit) -> int:
    """The number of samples of a unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return len(_samples(unit))


@functools.lru_cache(maxsize=1)
def _samples(unit: Unit) -> list[Any]:
    return unit.samples()


def _check(unit: Unit, sample: Sample, function: Callable[..., Any]) -> Checked:
    train = unit.trains
    try:
        expected = sample.copy().run(function, train)
    except Exception as problem:  # eager may raise anything
        return Checked("refused", message=f"eager: {_told(problem)}")
    train = train and expected.problem is None
    try:
        actual = _compiled(function, sample, train, "cuesta", _OPTIONS[unit.target])
    except Exception as problem:  # the survey looks for anything that the compiler or its program raises
        refused = _refused(function, sample)
        gradient: Verdict | None = ("refused" if refused else "raised") if expected.gradients else None
        return Checked("refused" if refused else "raised", gradient, refused or _told(problem), *_called())
    with torch.no_grad():
        comparison = _Comparison(function, sample, train, expected, actual, unit.entry)
        return comparison.checked(*_called())


@dataclass
class _Comparison:
    function: Callable[..., Any]
    sample: Sample
    train: bool
    expected: Run
    actual: Run
    entry: str
    by_f64: bool = False

    @functools.cached_property
    def traced(self) -> Run:
        """The run of backend aot_eager. AOTAutograd changes some strides, and cuesta must match its graphs."""
        with torch.enable_grad():
            return _compiled(self.function, self.sample, self.train, "aot_eager")

    @functools.cached_property
    def exact(self) -> Run | None:
        """The run in f64 throughout; None if torch cannot run it in f64."""
        try:
            with torch.enable_grad(), wide_defaults():
                run = self.sample.wide().run(self.function, self.train)
        except Exception:  # many operators cannot take these arguments in f64
            return None
        return None if run.problem else run

    @functools.cached_property
    def nearby(self) -> list[Run]:
        with torch.enable_grad():
            return [self.sample.moved(seed).run(self.function, self.train) for seed in range(NEIGHBOURS)]

    def checked(self, graphs: int, calls: list[tuple[str, str]]) -> Checked:
        forward, message = self._judge("forward")
        gradient: Verdict | None = None
        if self.actual.problem is not None:
            told = _told(self.actual.problem)
            gradient, problem = ("refused", told) if self.traced.problem else ("raised", told)
            message = message or problem
        elif self.expected.gradients or self.actual.gradients:
            gradient, problem = self._judge("gradients")
            message = message or problem
        return Checked(forward, gradient, message, graphs, calls, self.by_f64)

    def _judge(self, part: str) -> tuple[Verdict, str]:
        actual, expected = (getattr(run, part) for run in (self.actual, self.expected))
        if part == "forward" and self.actual.others != self.expected.others != self.traced.others:
            return "wrong", f"{self.actual.others}, eager gives {self.expected.others}"
        if _form(actual, expected) and (problem := _form(actual, getattr(self.traced, part))):
            return "wrong", problem
        problem = self._values(part, actual)
        if not problem:
            return "right", ""
        if self._values(part, getattr(self.traced, part)):
            return "refused", f"torch's own tracing changes the values: {problem}"
        return "wrong", problem

    def _values(self, part: str, actual: Mapping[str, Tensor]) -> str | None:
        form_only = bool(UNINITIALISED.fullmatch(self.entry))
        for name, want in getattr(self.expected, part).items():
            if (form_only and name.startswith("result")) or _close(actual[name], want):
                continue
            if name_equals(self.entry, self.sample, name, actual[name], want):
                continue
            self.by_f64 = True
            around = [getattr(run, part)[name] for run in self.nearby]
            exact = getattr(self.exact, part).get(name, want) if self.exact else want
            if problem := compare_values(name, actual[name], [want, *around], _sane(exact, want)):
                return problem
        return None


def _sane(exact: Tensor, want: Tensor) -> Tensor:
    """`exact`, or `want` if `exact` is far from it and so the result of another computation."""
    if exact.shape != want.shape or not want.is_floating_point():
        return want
    finite = want.isfinite() & exact.isfinite()
    scale = exact[finite].abs().amax() if finite.any() else 0.0
    share = _ANOTHER.get(want.dtype, _ANOTHER_BY_DEFAULT)
    return exact if largest_error(want[finite], exact[finite]) <= share * scale else want


def _close(actual: Tensor, expected: Tensor) -> bool:
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError:
        return False
    return True


def _form(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    if actual.keys() != expected.keys():
        return f"there are {', '.join(actual)}; there should be {', '.join(expected)}"
    for name, want in expected.items():
        got = actual[name]
        if got.layout != want.layout:
            return f"{name}: layout is {got.layout}, eager's is {want.layout}"
        if want.layout == torch.strided:
            for problem in same_form(name, got, want):
                return problem
    return None


def _compiled(
    function: Callable[..., Any], sample: Sample, train: bool, backend: str, options: dict[str, Any] | None = None
) -> Run:
    """A run through torch.compile, as a single graph if Dynamo can trace one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    torch.compiler.reset()
    try:
        whole = torch.compile(call, backend=backend, fullgraph=True, dynamic=False, options=options)
        return sample.copy().run(whole, train)
    except BackendCompilerFailed:
        raise
    except TorchDynamoException:
        torch.compiler.reset()
        return sample.copy().run(torch.compile(call, backend=backend, dynamic=False, options=options), train)


def _refused(function: Callable[..., Any], sample: Sample) -> str | None:
    """The error that aot_eager raises on the sample, or None."""
    try:
        _compiled(function, sample, False, "aot_eager")
    except Exception as problem:  # torch may raise anything
        return f"aot_eager: {_told(problem)}"
    return None


def _called() -> tuple[int, list[tuple[str, str]]]:
    """The number of graphs since Dynamo's last reset, and (op, reason) of each of their calls into ATen."""
    graphs = cuesta.report().graphs
    calls = {(call["op"], call["reason"]) for graph in graphs for call in graph.aten_calls}
    calls |= {("the whole graph", graph.fallback) for graph in graphs if graph.fallback}
    return len(graphs), sorted(calls)


def _told(problem: Exception) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {' | '.join(lines[:3])}"[:400]
