"""Records the outcome of one call, and compares the outcomes of two."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuesta.tools.fuzz.calls.call import Call, given_gradients
from cuesta.tools.fuzz.calls.memories import Memories, in_memory, overlaps_itself
from cuesta.tools.fuzz.compiling import Function
from cuesta.tools.fuzz.failure import Failure, kind_of, places_of
from cuesta.torch_private.tensors import storage_key

Tensor = torch.Tensor

#: Allowed error, relative to the number and to the largest number of its tensor. A wrong address gives unrelated
#: numbers, so the tolerance need not be strict.
_TOLERANCE = {torch.float64: 1e-7, torch.complex128: 1e-7, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_USUAL_TOLERANCE = 1e-3
#: In autocast, f32 results may have been computed in bf16.
_AUTOCAST_TOLERANCE = 5e-2
#: Added to the magnitude that the tolerance scales: gradients that are 0 up to rounding, of arguments in quarters.
_LITTLE = 1e-2
#: The part of a `_form` that holds dtype, device and shape; without class, strides and autograd flags.
_NUMBERS_ONLY = slice(1, 4)


@dataclass
class Outcome:
    """The outcome of one call: an exception, or results and gradients by name; and the memory of the arguments."""

    raised: Exception | None = None
    tensors: dict[str, Tensor | None] = field(default_factory=dict)
    #: name → everything but the numbers, of results, gradients, and arguments after the call
    forms: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    #: pair of a result and a result or argument in one storage → distance between their first elements in bytes
    distances: dict[tuple[str, str], int] = field(default_factory=dict)
    #: results whose conjugate or negative bit is set
    lazy: set[str] = field(default_factory=set)
    #: pairs of a result and an argument or result that are the same object
    same: set[tuple[str, str]] = field(default_factory=set)
    #: whether memory is written while an argument overlaps itself, so that results depend on the order of the writes
    open: bool = False
    #: whether memory is written while arguments share a block
    shares_written: bool = False
    dtypes: list[torch.dtype] = field(default_factory=list)
    covered: list[Tensor] = field(default_factory=list)
    before: list[Tensor] = field(default_factory=list)
    after: list[Tensor] = field(default_factory=list)

    @staticmethod
    def of(call: Call, function: Function, loses: bool = True) -> Outcome:
        """Makes the call's arguments anew and calls the function with them. If not `loses`, arguments that should have
        lost their memory keep it."""
        outcome, memory, grad_memory = Outcome(), Memories(loses), Memories()
        arguments = call.make(memory)
        outcome.covered = memory.seal(arguments)
        outcome.dtypes = [block.dtype for block in memory.blocks]
        outcome.before = memory.bytes()
        try:
            results = call.run(function, arguments)
            outcome._see(arguments, results)
            outcome._see_gradients(arguments, results, call, grad_memory)
        except Exception as problem:  # an error unless eager raises as well
            outcome.raised = problem
        outcome.after = memory.bytes()
        outcome.open = any(map(overlaps_itself, arguments)) and outcome._has_written()
        outcome.shares_written = len(memory.blocks) < len(arguments) and outcome._has_written()
        return outcome

    def _has_written(self) -> bool:
        return any(not torch.equal(x, y) for x, y in zip(self.before, self.after, strict=True))

    def _see(self, arguments: Sequence[Any], results: Sequence[Any]) -> None:
        named = {f"result {i}": y for i, y in enumerate(results)}
        given = {f"argument {i}": x for i, x in enumerate(arguments)}
        for name, y in named.items():
            self.tensors[name] = _copy(y) if in_memory(y) or not y.numel() or y.layout != torch.strided else None
            self.forms[name] = _form(y)
            if isinstance(y, Tensor) and y.layout == torch.strided and (y.is_conj() or y.is_neg()):
                self.lazy.add(name)
        self.forms.update({name: _form(x) for name, x in given.items()})
        for (name, y), (other, x) in itertools.chain(
            itertools.product(named.items(), given.items()), itertools.combinations(named.items(), 2)
        ):
            if x is y:
                self.same.add((name, other))
            elif in_memory(x) and in_memory(y) and storage_key(x) == storage_key(y):
                self.distances[name, other] = y.data_ptr() - x.data_ptr()

    def _see_gradients(self, arguments: Sequence[Any], results: Sequence[Any], call: Call, memory: Memories) -> None:
        leaves = {f"gradient {i}": x for i, x in enumerate(arguments) if _is_leaf(x)}
        differentiable = [y for y in results if isinstance(y, Tensor) and y.requires_grad and not _is_leaf(y)]
        if not leaves or not differentiable:
            return
        given = given_gradients(differentiable, call.gradient, memory)
        before = memory.bytes()
        found = torch.autograd.grad(differentiable[: len(given)], list(leaves.values()), given, allow_unused=True)
        for name, x in zip(leaves, found, strict=True):
            self.tensors[name] = None if x is None else _copy(x)
            self.forms[name] = (None,) if x is None else (x.dtype, tuple(x.shape), x.device.type)
        for i, (x, y) in enumerate(zip(before, memory.bytes(), strict=True)):
            self.tensors[f"memory of given gradient {i} changed"] = (x != y).any()


def difference(wanted: Outcome, actual: Outcome, within: str, strict: bool = True) -> Failure | None:
    """A Failure that says how a call differs from the wanted outcome, or None. If not `strict`, results may have
    another class and other strides, and may own memory where eager's results alias an argument."""
    problem = _other_exception(wanted, actual)
    if problem is None and wanted.raised is None and not wanted.open:
        problem = _other_results(wanted, actual, within, strict)
    return problem or _other_memory(wanted, actual, within)


def _other_exception(wanted: Outcome, actual: Outcome) -> Failure | None:
    if actual.raised is not None and wanted.raised is None:
        return Failure(f"raises {kind_of(actual.raised)}", str(actual.raised))
    if actual.raised is None and wanted.raised is not None:
        problem = wanted.raised
        return Failure("does not raise", f"eager raises {type(problem).__name__}: {problem}")
    return None


def _other_results(wanted: Outcome, actual: Outcome, within: str, strict: bool) -> Failure | None:
    if wanted.tensors.keys() != actual.tensors.keys():
        return Failure("other results", f"{', '.join(actual.tensors)}; eager has {', '.join(wanted.tensors)}")
    for name, want in wanted.tensors.items():
        found = actual.tensors[name]
        told = slice(None) if strict else _NUMBERS_ONLY
        if wanted.forms.get(name, ())[told] != actual.forms.get(name, ())[told]:
            return Failure("wrong form", f"{name} is {actual.forms.get(name)}; eager has {wanted.forms.get(name)}")
        if want is None or found is None or want.device.type == "meta":
            continue
        wrong = _wrong(want, found, within, _loosest(wanted.dtypes))
        if wrong.any():
            return Failure(f"wrong values of a {name.partition(' ')[0]}", f"{name}, {places_of(wrong, found, want)}")
    if not strict:
        return None
    for name, form in wanted.forms.items():
        if actual.forms.get(name) != form:
            return Failure("wrong form", f"{name} is {actual.forms.get(name)} after the call; eager has {form}")
    return _other_sharing(wanted, actual)


def _other_sharing(wanted: Outcome, actual: Outcome) -> Failure | None:
    if wanted.same != actual.same:
        return Failure("other identity", f"one object: {sorted(actual.same)}; eager: {sorted(wanted.same)}")
    # An exported program resolves eager's lazy results, so they have memory of their own.
    resolved = wanted.lazy - actual.lazy
    apart = _texts({pair: n for pair, n in wanted.distances.items() if resolved.isdisjoint(pair)}, actual.distances)
    if apart:
        return Failure("memory apart", f"in eager {apart} share memory; here they share none, or at another offset")
    # A result without memory in eager, such as one computed from a ZeroTensor, has memory here.
    without = {name for name, y in wanted.tensors.items() if y is None}
    shared = _texts({pair: n for pair, n in actual.distances.items() if without.isdisjoint(pair)}, wanted.distances)
    return Failure("shared memory", f"{shared} share memory, but not in eager") if shared else None


def _texts(some: Mapping[tuple[str, str], int], others: Mapping[tuple[str, str], int]) -> str:
    return "; ".join(f"{a}, {b}" for (a, b), n in some.items() if others.get((a, b)) != n)


def _other_memory(wanted: Outcome, actual: Outcome, within: str) -> Failure | None:
    """Memory that eager does not write must keep every bit; written memory must hold eager's numbers. If the call
    raises, only memory beside the arguments is checked."""
    for i, (old, want, found) in enumerate(zip(wanted.before, wanted.after, actual.after, strict=True)):
        kept = (want == old) & (found != old)
        beside = kept & ~wanted.covered[i]
        if beside.any():
            return Failure("writes beside the arguments", f"memory {i}: {_runs(beside)}")
        if wanted.raised is not None or wanted.open:
            continue
        dtype = wanted.dtypes[i]
        written = (want != old).view(-1, dtype.itemsize).any(1) if old.numel() else torch.zeros(0, dtype=torch.bool)
        same_bits = (found == old).view(-1, dtype.itemsize).all(1) if old.numel() else written
        wrong = _wrong(want.view(dtype), found.view(dtype), within)
        if (wrong & written).any():
            return Failure("wrong values of a written argument", f"memory {i}: elements {_runs(wrong & written)}")
        if (~written & ~same_bits & wrong).any():
            return Failure("writes to what eager leaves", f"memory {i}: elements {_runs(~written & ~same_bits)}")
    return None


def _runs(mask: Tensor) -> str:
    places = mask.nonzero().flatten().tolist()
    return f"{len(places)}, the first {places[:8]}"


def _loosest(dtypes: Sequence[torch.dtype]) -> float:
    """The largest tolerance of the dtypes, for results computed from all of them: an f64 may be a converted f32."""
    return max((_TOLERANCE.get(d, _USUAL_TOLERANCE) for d in dtypes if d.is_floating_point or d.is_complex), default=0)


def _wrong(want: Tensor, found: Tensor, within: str, least: float = 0) -> Tensor:
    """Mask of the numbers that are wrong. The tolerance is that of the dtype, and at least `least`. Complex numbers are
    equal if each has a NaN part: eager's sums multiply by alpha = 1, which makes both parts NaN, but sums over several
    dims do not."""
    if want.is_complex():
        parts = _wrong(torch.view_as_real(want), torch.view_as_real(found), within, least).any(-1)
        return parts & ~(want.isnan() & found.isnan())
    if not want.is_floating_point():
        return want != found
    share = max(_TOLERANCE.get(want.dtype, _USUAL_TOLERANCE), least)
    if within == "autocast":
        share = max(share, _AUTOCAST_TOLERANCE)
    x, y = want.double(), found.double()
    largest = torch.where(x.isfinite(), x.abs(), 0).amax() if x.numel() else x.sum()
    close = (x - y).abs() <= share * (x.abs() + largest / 4 + _LITTLE)
    return ~(close | (x == y) | (x.isnan() & y.isnan()))


def _copy(x: Any) -> Tensor:
    """A contiguous copy as a plain tensor, with lazy bits resolved."""
    with torch.no_grad():
        plain = x.detach().as_subclass(Tensor)
        plain = plain.to_dense() if plain.layout != torch.strided else plain
        return plain.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def _form(x: Any) -> tuple[Any, ...]:
    if not isinstance(x, Tensor):
        return (type(x).__name__,)
    strides = tuple(x.stride()) if x.layout == torch.strided and x.numel() else ()
    return (
        type(x).__name__,
        str(x.dtype).removeprefix("torch."),
        x.device.type,
        tuple(x.shape),
        tuple(s for s, n in zip(strides, x.shape, strict=False) if n != 1),
        "grad" if x.requires_grad else "no grad",
        "inference" if x.is_inference() else "no inference",
    )


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and x.is_leaf
