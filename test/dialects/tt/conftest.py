"""Runs a few tt ops on blocks of torch tensors, in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import pytest
import torch

from cuesta._mlir import arith, ir
from cuesta.dialects import make_context, tt, types, verify
from cuesta.dialects.tt.interpreter import Kernel, prepare
from cuesta.dialects.tt.types import element_of, shape_of

Tensor = torch.Tensor

_I1, _I8 = "i1", "i8"


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """MLIR's context and location of the test."""
    with make_context(), ir.Location.file("kernel.py", 7, 0):
        yield


@pytest.fixture
def kernel() -> Callable[..., Kernel]:
    """(what writes the body of a kernel, given the arguments; pointees) → it, verified and ready to run."""
    return _kernel


@pytest.fixture
def compute() -> Callable[..., Any]:
    """(what builds ops on blocks; tensors of shape [programs, *block]) → the result, or results, likewise."""
    return _compute


def _kernel(write: Callable[..., None], pointees: Sequence[str]) -> Kernel:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function, entry = tt.func("kernel", [tt.pointer_type(p) for p in pointees])
    with ir.InsertionPoint(entry):
        write(*entry.arguments)
        tt.return_()
    verify(module, "building")
    return prepare(function)


def _compute(build: Callable[..., Any], *inputs: Tensor) -> Any:
    programs = len(inputs[0])
    stored = [x.view(torch.int8) if x.dtype == torch.bool else x for x in inputs]
    kinds: list[ir.Type] = []
    scratch = ir.Module.create()
    with ir.InsertionPoint(scratch.body):  # once for the results' types
        results = build(*(_block_of(x) for x in inputs))
        single = isinstance(results, ir.Value)
        kinds = [r.type for r in ([results] if single else results)]
    outputs = [torch.zeros(programs, *shape_of(k), dtype=types.torch_dtype(str(element_of(k)))) for k in kinds]
    memory = [x.view(torch.int8) if x.dtype == torch.bool else x for x in outputs]

    def write(*pointers: ir.Value) -> None:
        values = [_load(p, x) for p, x in zip(pointers, inputs, strict=False)]
        built = build(*values)
        for pointer, value in zip(pointers[len(inputs) :], [built] if single else built, strict=True):
            _store(pointer, value)

    tensors = [*(x.contiguous() for x in stored), *memory]
    made = _kernel(write, [types.SPELLING[x.dtype].removeprefix("u") for x in tensors])
    made.run((programs, 1, 1), [x.data_ptr() for x in tensors], [x.numel() * x.itemsize for x in tensors])
    return outputs[0] if single else outputs


def _block_of(x: Tensor) -> ir.Value:
    return tt.full(tuple(x.shape[1:]), types.SPELLING[x.dtype].removeprefix("u"), 0)


def _positions(pointer: ir.Value, shape: Sequence[int]) -> ir.Value:
    """This program's block of the memory at `pointer`."""
    start = arith.muli(tt.get_program_id(0), tt.constant(prod(shape), "i32"))
    if not shape:
        return tt.addptr(pointer, start)
    inside = tt.reshape(tt.make_range(0, prod(shape)), shape)
    return tt.addptr(tt.splat(pointer, shape), arith.addi(tt.splat(start, shape), inside))


def _load(pointer: ir.Value, x: Tensor) -> ir.Value:
    value = tt.load(_positions(pointer, tuple(x.shape[1:])))
    if x.dtype == torch.bool:
        return arith.cmpi(arith.CmpIPredicate.ne, value, tt.full(shape_of(value), _I8, 0))
    return value


def _store(pointer: ir.Value, value: ir.Value) -> None:
    if str(element_of(value)) == _I1:
        value = arith.extui(tt.block_type(shape_of(value), _I8), value)
    tt.store(_positions(pointer, shape_of(value)), value)
