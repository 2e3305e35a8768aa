"""Describes one call of a compiled function: its arguments, the context that it runs in, and its gradients.

A text of the fuzzer of calls has one decorated function for each call:

    @call(form="x0 conj, gaps", within="no_grad")
    def call_3(memory):
        x0 = memory(60, "complex64", "end", 3)[5:53].view(4, 12)[:, ::2].conj()
        return (x0,)
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.tools.fuzz.calls.memories import Memories
from cuesta.tools.fuzz.compiling import Function
from cuesta.torch_private.dynamo import mark_static_address
from cuesta.torch_private.tensors import negative_bit

Tensor = torch.Tensor

#: Kinds of the output gradients that a backward graph gets.
GRADIENTS = ("ones", "expanded", "gaps", "lazy", "end", "odd", "first")


@dataclass(frozen=True)
class Call:
    """One call. `form` says in words what is unusual about the arguments. `within` is the context or the transform that
    the call runs in. `gone`: an argument has lost its memory;
    reading it must raise an error, though eager reads it without one. `foreign`: an argument has another form than in
    the call that the function is compiled for."""

    make: Callable[[Memories], tuple[Any, ...]]
    form: str
    within: str
    gradient: str
    gone: bool
    foreign: bool

    def run(self, function: Function, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        """Calls the function with the arguments in the call's context; lets the function's exceptions through."""
        if self.within == "thread":
            return _in_a_thread(lambda: function(*arguments))
        if self.within == "vmap":
            return _flat(torch.vmap(function)(*arguments))
        if self.within == "func.grad":
            return _flat(torch.func.grad(lambda *given: _total(function(*given)))(*arguments))
        if self.within == "static address":
            for x in arguments:
                mark_static_address(x, guard=False)
        with _CONTEXTS.get(self.within, contextlib.nullcontext)():
            return _flat(function(*arguments))


_CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


def call(
    form: str = "ordinary", within: str = "nothing", gradient: str = "ones", gone: bool = False, foreign: bool = False
) -> Callable[[Callable[[Memories], tuple[Any, ...]]], Call]:
    """Decorator: turns the function that makes the arguments of a call into a Call."""
    return lambda make: Call(make, form, within, gradient, gone, foreign)


class Plain(Tensor):
    """A subclass that adds nothing."""


class Telling(Tensor):
    """A subclass whose `__torch_function__` does what Tensor's does."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


def given_gradients(results: Sequence[Tensor], kind: str, memory: Memories) -> list[Tensor]:
    """The output gradients of a backward pass: one for each result, or for the first alone if `kind` is "first"."""
    chosen = results[:1] if kind == "first" else results
    given = [_gradient(y, kind, memory, 1000 + i) for i, y in enumerate(chosen)]
    memory.seal(given)
    return given


def _gradient(y: Tensor, kind: str, memory: Memories, seed: int) -> Tensor:
    dtype, count = str(y.dtype).removeprefix("torch."), y.numel()
    if kind == "expanded":
        return memory(1, dtype, seed=seed)[0].expand(y.shape)
    if kind in ("gaps", "lazy"):
        gaps = memory(2 * count, dtype, seed=seed)[::2].view(y.shape)
        if kind == "gaps":
            return gaps
        return gaps.conj() if y.is_complex() else negative_bit(gaps)
    if kind in ("end", "odd"):
        return memory(count, dtype, kind, seed).view(y.shape)
    return torch.ones_like(y)


def _in_a_thread(function: Callable[[], Any]) -> tuple[Tensor, ...]:
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(function())
        except BaseException as problem:  # the waiting thread raises the exception again
            done.append(problem)

    # Runs with a copy of this thread's context, because torch keeps its configuration for each thread.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()
    if isinstance(done[0], BaseException):
        raise done[0]
    return _flat(done[0])


def _flat(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def _total(results: Sequence[Tensor]) -> Tensor:
    return torch.stack(
        [y.sum().real.to(torch.float32) for y in results if y.is_floating_point() or y.is_complex()]
    ).sum()
