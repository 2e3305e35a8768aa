"""Reads texts of Python that define a function, and compiles the function as the fuzzer's kinds need it."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from cuesta.driver.backend import compile_fx_graph
from cuesta.torch_private.dynamo import lookup_backend, maybe_mark_dynamic

Tensor = torch.Tensor
Function: TypeAlias = Callable[..., tuple[Tensor, ...]]
#: The name of a backend of torch.compile, or the backend's function.
Backend: TypeAlias = str | Callable[..., Any]


def read_text(text: str) -> dict[str, Any]:
    """The names that the text defines, run as a module that is not the main program."""
    name = f"<text {hash(text)}>"  # Dynamo looks up the source of the function that it traces
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "text"}
    exec(compile(text, name, "exec"), scope)
    return scope


def checking(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend with `options={"checked": True}`."""
    return compile_fx_graph(gm, inputs, options={"checked": True})


@dataclass
class Compiled:
    """A compiled function, and how many graphs Dynamo has passed to the backend."""

    function: Function
    graphs: int = 0

    @staticmethod
    def of(function: Function, backend: Backend, dynamic: bool | None, marked: Sequence[tuple[int, int]]) -> Compiled:
        """Compiles with torch.compile, which forgets all that it compiled before. `marked` are (argument, dim) whose
        sizes are marked as dynamic at each call."""
        torch.compiler.reset()
        compile = lookup_backend(backend) if isinstance(backend, str) else backend
        made = Compiled(function)

        def counted(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            made.graphs += 1
            return compile(gm, inputs)

        compiled = torch.compile(function, backend=counted, dynamic=dynamic)

        def call(*arguments: Any) -> tuple[Tensor, ...]:
            for i, dim in marked:
                if arguments[i].dim() > dim:
                    maybe_mark_dynamic(arguments[i], dim)
            return compiled(*arguments)

        made.function = call if marked else compiled
        return made
