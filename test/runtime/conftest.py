"""Defines fixtures that compile programs written by hand in planned IR to machine code, and load them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.dialects.types import SPELLING, storage
from cuesta.lowering.host_to_llvm.describe import add_accesses, describe
from cuesta.lowering.host_to_llvm.interface import state_interface
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable

Tensor = torch.Tensor


@pytest.fixture
def load() -> Callable[..., Executable]:
    """`load(text, passes="plan-memory")` compiles a module, and loads it from an artefact's bytes as a cache does."""
    return _load


@pytest.fixture
def call_of(load: Callable[..., Executable]) -> Callable[..., Executable]:
    """`call_of(overload, args, tensors, expected, route, positions)`: a program of one ATen call, for operands with the
    shapes, strides and dtypes of `tensors`. It returns the results at `positions` (default: all), like `expected`."""
    return _call_of


@pytest.fixture
def assert_same() -> Callable[[Sequence[Tensor], Sequence[Tensor]], None]:
    """Asserts that tensors are equal bit for bit, and equal in strides, dtypes and devices."""

    def check(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, rtol=0, atol=0)
            assert (a.stride(), a.dtype, a.device) == (e.stride(), e.dtype, e.device)

    return check


def _load(text: str, passes: str = "plan-memory") -> Executable:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Pipeline.parse(f"builtin.module({passes})").run(module)
        metadata = describe(module)
        last = "check-bounds,host-to-llvm" if "checked" in metadata else "host-to-llvm"
        Pipeline.parse(f"builtin.module({last})").run(module)
        add_accesses(metadata, module)
        state_interface(module, metadata)
        artefact = Artefact(compile_to_object(module), "cuesta_main", {"program": metadata})
    return Executable(Artefact.from_bytes(artefact.to_bytes()))


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
    operands = ", ".join(f"%a{i}" for i in range(len(tensors)))
    parameters = ", ".join(f"%a{i}: {_memref(t)} {_attributes(t)}" for i, t in enumerate(tensors))
    results = ", ".join(f"{_memref(t)} {_attributes(t)}" for t in expected)
    kinds = ", ".join(map(_memref, expected))
    dtypes = json.dumps([SPELLING[t.dtype] for t in (*tensors, *expected)])
    kept = "" if positions is None else f", positions = {list(positions)}"
    names = ", ".join(f"%r#{i}" for i in range(len(expected)))
    return _load(f"""
    func.func @graph({parameters}) -> ({results}) {{
      %r:{len(expected)} = "host.aten"({operands}) {{overload = "{overload}", args = {json.dumps(text)},
        dtypes = {dtypes}, reason = "", route = "{route}"{kept}}} : ({", ".join(map(_memref, tensors))}) -> ({kinds})
      return {names} : {kinds}
    }}""")


def _memref(t: Tensor) -> str:
    layout = "" if t.is_contiguous() else f", strided<{list(t.stride())}>"
    return f"memref<{''.join(f'{n}x' for n in t.shape)}{storage(SPELLING[t.dtype])}{layout}>"


def _attributes(t: Tensor) -> str:
    return f'{{cuesta.dtype = "{SPELLING[t.dtype]}", cuesta.strides = {list(t.stride())}}}'
