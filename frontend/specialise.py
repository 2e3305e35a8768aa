"""Graphs with symbolic sizes: one program for each set of sizes that is called, made when it is.

Dynamo's guards admit every size that the graph is right for; each combination that arrives is traced
with its numbers and compiled once. Kernels with symbolic sizes will make this one program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from cuesta.frontend.calling import Boxed
from cuesta.frontend.specialised_masks import prove_masks


def is_symbolic(gm: torch.fx.GraphModule) -> bool:
    """Whether any argument of the graph has a size or value that is not a number."""
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        strided = isinstance(value, torch.Tensor) and value.layout == torch.strided
        if strided and any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride())):
            return True
    return False


def has_data_dependent_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether a size within the graph is known only when it runs (nonzero, item, boolean masks)."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(free_unbacked_symbols(value) for node in gm.graph.nodes if (value := node.meta.get("val")) is not None)


def specialised(gm: torch.fx.GraphModule, compile_static: Callable[[torch.fx.GraphModule], Boxed]) -> Boxed:
    """A boxed callable that compiles `gm` for each new combination of sizes."""
    programs: dict[tuple[Any, ...], Boxed] = {}
    lock = threading.Lock()

    def call(args: list[Any]) -> list[Any]:
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        program = programs.get(key)
        if program is None:
            with lock:
                program = programs.get(key)
                if program is None:
                    program = programs[key] = compile_static(_with_numbers(gm, args))
        return program(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _with_numbers(gm: torch.fx.GraphModule, args: list[Any]) -> torch.fx.GraphModule:
    """The graph as traced for arguments of these sizes."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    fakes = [mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a for a in args]

    def run(*inputs: Any) -> Any:
        return torch.fx.Interpreter(gm).run(*inputs)

    with mode, torch.no_grad():
        traced = make_fx(run, tracing_mode="real")(*fakes)
    prove_masks(traced)
    return traced
