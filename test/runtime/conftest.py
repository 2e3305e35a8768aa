"""Programs of one call into ATen, down to machine code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import cuesta.passes
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.lowering.host_to_llvm.describe import describe
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.passes.pipeline import Pipeline
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable

Tensor = torch.Tensor


@pytest.fixture
def call_of() -> Callable[..., Executable]:
    """`call_of(overload, args, tensors, expected, route, positions)`: a program that makes one call on contiguous f32
    tensors and returns the results at `positions`, which look like `expected`."""
    cuesta.passes.load_all()
    return _call_of


def _call_of(
    overload: str,
    args: Sequence[Any],
    tensors: Sequence[Tensor],
    expected: Sequence[Tensor],
    route: str | None = None,
    positions: Sequence[int] | None = None,
) -> Executable:
    text = json.dumps(list(args))
    route = route or choose_route(overload, text, [])
    parameters = ", ".join(f"%a{i}: {_kind(t)}" for i, t in enumerate(tensors))
    operands, inputs = ", ".join(f"%a{i}" for i in range(len(tensors))), ", ".join(map(_kind, tensors))
    names, outputs = ", ".join(f"%r#{i}" for i in range(len(expected))), ", ".join(map(_kind, expected))
    kept = "" if positions is None else f", positions = {list(positions)}"
    source = f"""
    func.func @graph({parameters}) -> ({outputs}) {{
      %r:{len(expected)} = "host.aten"({operands}) {{overload = "{overload}", args = {json.dumps(text)},
        dtypes = {json.dumps(["f32"] * (len(tensors) + len(expected)))}, reason = "", route = "{route}"{kept}}}
        : ({inputs}) -> ({outputs})
      return {names} : {outputs}
    }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        Pipeline.parse("builtin.module(plan-memory)").run(module)
        metadata = describe(module)
        Pipeline.parse("builtin.module(host-to-llvm)").run(module)
        return Executable(Artefact(compile_to_object(module), "cuesta_main", {"program": metadata}))


def _kind(tensor: Tensor) -> str:
    layout = "" if tensor.is_contiguous() else f", strided<{list(tensor.stride())}>"
    return f"memref<{''.join(f'{n}x' for n in tensor.shape)}f32{layout}>"
