"""Judges the calls of one compiled function: compares each with eager, with arguments made anew for both.

Dynamo's guards decide which arguments a compiled function takes. Our program must handle whatever the guards do not
check: where memory is, how it is aligned, and what shares it. An exported function has no guards: a call with other
arguments than those of the export must be right or raise an InputError.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

import cuesta
from cuesta.errors import InputError, Unsupported
from cuesta.runtime.arguments import missing_memory
from cuesta.tools.backend import register_cuesta
from cuesta.tools.fuzz.calls.call import Call
from cuesta.tools.fuzz.calls.call_outcome import Outcome, difference
from cuesta.tools.fuzz.calls.call_text import CallText, call_names, only_calls
from cuesta.tools.fuzz.calls.memories import Memories
from cuesta.tools.fuzz.compiling import Backend, Compiled, Function, checking
from cuesta.tools.fuzz.failure import Failure, Tally, Unjudged, kind_of
from cuesta.torch_private.configs import recompiles

#: Backends of a failing call: a failure under `aot_eager` as well is AOTAutograd's, not ours.
OURS, TORCHS = "cuesta", "aot_eager"
#: Limit of programs for one function; Dynamo's own limit is eight.
_MOST_PROGRAMS = 1000
#: Failures of one kind that are confirmed for one function: each takes a few compiles.
_LOOKED_INTO = 3


def check_calls(text: str, checked: bool = False) -> Tally:
    """A Tally: how often each outcome occurred, and a text for each failing call. Raises Unjudged if torch alone cannot
    export the function, or `cuesta.compile` does not support it. `checked`: the program checks each memory access."""
    ours = checking if checked else OURS
    with _quiet():
        given = CallText.read(text)
        counts: Counter[str] = Counter()
        wanted = {name: _eager(given, call) for name, call in given.calls.items()}
        compiled = _compiled(given, ours)
        if isinstance(compiled, Failure):
            return Tally(counts, ((text, compiled),))
        found: dict[str, Failure] = {}
        for name, call in given.calls.items():
            programs = compiled.graphs
            failure = _judge_call(call, wanted[name], Outcome.of(call, compiled.function), given, counts)
            counts["calls"] += 1
            counts["calls for which Dynamo compiles"] += compiled.graphs > programs
            if failure is not None:
                found[name] = failure
        return Tally(counts, tuple(_those_made_sure(text, found, counts, ours)))


def _those_made_sure(
    text: str, found: Mapping[str, Failure], counts: Counter[str], backend: Backend
) -> Iterator[tuple[str, Failure]]:
    """A text for each confirmed failure, of the first `_LOOKED_INTO` failures of each kind."""
    kinds: Counter[str] = Counter()
    for name, failure in found.items():
        kinds[failure.kind] += 1
        if kinds[failure.kind] <= _LOOKED_INTO:
            yield from _made_sure(text, name, failure, counts, backend)
        else:
            counts["calls that fail like others of their function, not looked into"] += 1


def call_in_eager(text: str) -> None:
    """Makes every call of the text in eager, with no memory lost. If a call has arguments without memory, also makes
    the calls under Dynamo without our backend: code that Dynamo leaves to eager reads such arguments."""
    with _quiet():
        given = CallText.read(text)
        for call in given.calls.values():
            _eager(given, call)
        if given.export == "no" and any(call.gone for call in given.calls.values()):
            compiled = _compiled(given, _eager_graphs)
            assert isinstance(compiled, Compiled)
            for call in given.calls.values():
                Outcome.of(call, compiled.function)


def _eager_graphs(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A backend that runs graphs in eager, and raises InputError for arguments that have lost their memory."""

    def call(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, torch.Tensor) and (missing := missing_memory(argument)):
                raise InputError(missing)
        return gm(*arguments)

    return call


def show(path: str) -> None:
    """Prints the failures of the calls in a file."""
    register_cuesta()
    for _, failure in check_calls(Path(path).read_text()).failures:
        print(f"{failure.kind}: {failure.message}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), recompiles(_MOST_PROGRAMS, 10**6):
        warnings.simplefilter("ignore")
        yield


def _eager(given: CallText, call: Call) -> Outcome:
    """The outcome in eager. No memory is lost, because eager would read the lost memory without an error."""
    with torch.no_grad() if given.export != "no" else contextlib.nullcontext():
        return Outcome.of(call, given.function, loses=False)


def _judge_call(call: Call, wanted: Outcome, actual: Outcome, given: CallText, counts: Counter[str]) -> Failure | None:
    if call.gone and actual.raised is not None:
        counts["errors where an argument has no memory"] += 1
        return None
    if given.export != "no" and isinstance(actual.raised, InputError):
        counts["InputErrors of exported programs"] += 1
        return None
    if given.export != "no" and call.within == "autocast":
        counts["calls of exported programs in autocast, which was not on when they were exported"] += 1
        return None
    refused = actual.raised is None and "Inplace update to inference tensor" in str(wanted.raised)
    if refused and _writes_nothing(actual):
        counts["writes that change nothing, which eager refuses for inference tensors"] += 1
        return None
    # An exported program returns plain tensors, whatever the class of its arguments.
    strict = given.export == "no" or not (call.foreign or call.within == "inference_mode" or "Plain" in call.form)
    if given.export != "no" and call.foreign:
        if wanted.raised is not None and actual.raised is None:
            counts["calls of exported programs that are right where eager refuses the arguments' layout"] += 1
            return None
        wanted.open |= wanted.shares_written  # a copied argument no longer sees writes to the other
    failure = difference(wanted, actual, call.within, strict)
    if failure is None:
        counts["errors equal to eager's"] += wanted.raised is not None
    return failure


def _writes_nothing(outcome: Outcome) -> bool:
    return all(torch.equal(x, y) for x, y in zip(outcome.before, outcome.after, strict=True))


def _made_sure(
    text: str, name: str, failure: Failure, counts: Counter[str], backend: Backend
) -> list[tuple[str, Failure]]:
    """Confirms a failing call. Returns a text of the call alone, or after the earlier calls if it fails only then.
    Returns nothing if the call fails with `aot_eager` as well."""
    names = call_names(text)
    behind = only_calls(text, names[: names.index(name) + 1])
    given = CallText.read(behind)
    call = given.calls[name]
    wanted = _eager(given, call)
    failure = Failure(failure.kind, f"{failure.message} ({call.form}; within {call.within}; export: {given.export})")
    for smaller in (only_calls(text, [name]), behind):
        ours = _last_outcome(smaller, backend)
        if isinstance(ours, Outcome) and _judge_call(call, wanted, ours, given, Counter()) is None:
            continue
        torchs = _last_outcome(smaller, TORCHS)
        if isinstance(torchs, Failure) or _judge_call(call, wanted, torchs, given, Counter()) is None:
            return [(smaller, failure)]
        counts["calls that are other than eager's with aot_eager, too"] += 1
        return []
    counts["calls that fail once, and not again behind the same calls"] += 1
    return [(text, failure)]


def _last_outcome(text: str, backend: Backend) -> Outcome | Failure:
    """The outcome of the text's last call under a backend, after all the other calls."""
    given = CallText.read(text)
    compiled = _compiled(given, backend)
    if isinstance(compiled, Failure):
        return compiled
    outcomes = [Outcome.of(call, compiled.function) for call in given.calls.values()]
    return outcomes[-1]


def _compiled(given: CallText, backend: Backend) -> Compiled | Failure:
    if given.export != "no":
        torch.compiler.reset()
        return _exported(given, backend)
    return Compiled.of(given.function, backend, given.dynamic, given.marked)


class _Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.function(*arguments)


def _exported(given: CallText, backend: Backend) -> Compiled | Failure:
    first = next(iter(given.calls.values()))
    arguments = first.make(Memories())
    open_sizes: dict[int, dict[int, Any]] = {}
    for i, dim in given.marked:
        open_sizes.setdefault(i, {})[dim] = torch.export.Dim.AUTO
    shapes = (tuple(open_sizes.get(i) for i in range(len(arguments))),) if given.marked else None
    try:
        with torch.no_grad():
            exported = torch.export.export(_Module(given.function), arguments, dynamic_shapes=shapes)
        if backend == TORCHS:  # functionalised, like the graph that cuesta compiles
            functional = exported.run_decompositions({})
            return Compiled(_without_gradients(functional.module(check_guards=False)))
    except Exception as problem:  # torch may refuse the function with any exception
        raise Unjudged(f"export raised {type(problem).__name__}: {problem}") from problem
    try:
        program = cuesta.compile(exported, options={"checked": True} if backend is checking else None)
        if given.export == "loaded":
            program = _loaded(program)
    except Unsupported as problem:
        raise Unjudged(f"cuesta.compile does not take it: {problem}") from problem
    except Exception as problem:  # any other exception is a failure
        return Failure(f"cuesta.compile raises {kind_of(problem)}", str(problem))
    return Compiled(_without_gradients(program))


def _without_gradients(function: Callable[..., Any]) -> Function:
    def call(*arguments: Any) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            results: tuple[torch.Tensor, ...] = function(*arguments)
        return results

    return call


def _loaded(program: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return cuesta.load(program.save(Path(folder) / "program.cuesta"))
