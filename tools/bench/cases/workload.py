"""Defines the workload of a benchmark case: a function, its arguments, and how a call of the function trains."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.profiler import record_function

from cuesta.tools.bench.contenders import Contender
from cuesta.torch_private.pytree import tree_leaves

FORWARD, BACKWARD = "bench:forward", "bench:backward"


@dataclass(frozen=True)
class Workload:
    """`function(*arguments)` is what gets compiled.

    Without parameters, a call is `function(*arguments)` without gradients. With parameters, the function returns a
    loss, and a call is a training step: forward, loss, backward. With `optimizer`, which builds an optimizer from the
    parameters, the whole step is compiled as one function, from zero_grad to the optimizer's step. With
    `whole`, a break of the graph is an error. With `around`, a call is `around(function)`, which calls the compiled
    function as often as it likes, with arguments of its own.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    parameters: tuple[Tensor, ...] = ()
    optimizer: Callable[[tuple[Tensor, ...]], torch.optim.Optimizer] | None = None
    whole: bool = True
    around: Callable[[Callable[..., Any]], Any] | None = None
    tokens: int = 0
    """Tokens that a call of a language model reads or makes."""
    reads: int = 0
    """Bytes that a call reads from memory at least, where that is what limits it; 0 if they are not counted."""

    def compiled(self, backend: str, form: str | None = None) -> Callable[[], Any]:
        """One call as a function without arguments, compiled by a backend in `form`; not compiled for "eager"."""
        contender = Contender(backend, form)

        def run(function: Callable[..., Any], whole: bool) -> Callable[..., Any]:
            return contender.compile(_of_its_own(function, re.sub(r"\W", "_", str(contender))), fullgraph=whole)

        if self.optimizer is not None:
            # Dynamo breaks the graph at backward.
            return self._plain_call(run(self._whole_step(self.optimizer(self.parameters)), False))
        once = run(self.function, self.whole)
        if self.around is not None:
            return partial(self.around, once)
        return self._training_call(once) if self.parameters else self._plain_call(once)

    def results(self, outcome: Any) -> list[Tensor]:
        """The tensors to compare after a call that returned `outcome`, and copies of the gradients."""
        leaves = [t for t in tree_leaves(outcome) if isinstance(t, Tensor)]
        gradients = [p.grad.clone() for p in self.parameters if p.grad is not None]
        return [leaf.detach() for leaf in leaves] + gradients

    def _plain_call(self, run: Callable[..., Any]) -> Callable[[], Any]:
        def call() -> Any:
            return run(*self.arguments)

        return call

    def _whole_step(self, optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
        loss_of = self.function

        def step(*arguments: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*arguments)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def _training_call(self, run: Callable[..., Any]) -> Callable[[], Any]:
        def call() -> Any:
            for parameter in self.parameters:
                parameter.grad = None
            with record_function(FORWARD):
                loss = run(*self.arguments)
            with record_function(BACKWARD):
                loss.backward()
            return loss

        return call


def _of_its_own(function: Callable[..., Any], suffix: str) -> Callable[..., Any]:
    """A copy of the function with its own code object.

    Dynamo keeps one list of compiled code per code object. With a shared code object, each call of the second backend
    would evaluate the first backend's guards too.
    """
    name = f"{function.__name__}_{suffix}"
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
