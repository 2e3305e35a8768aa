"""Judges one graph: compares the compiled program with a run of the graph by each op's torch reference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

import cuesta.dialects as dialects
from cuesta._mlir import ir
from cuesta.dialects.fields import ints
from cuesta.dialects.graph_function import STORAGE, STRIDES, result_attributes
from cuesta.dialects.reference import find_function, run_in_place, with_strides
from cuesta.driver.lower import compile_module
from cuesta.options import Options
from cuesta.tools.fuzz.failure import Failure
from cuesta.tools.fuzz.rounding import Reference
from cuesta.tools.module_inputs import arguments_of, random_inputs

Tensor = torch.Tensor

#: Bounds of integer inputs; `cuesta-run --int-range=…` draws the same inputs with these bounds.
INT_RANGE = (-5, 6)


def check_graph(text: str, checked: bool = False) -> Failure | None:
    """None if the compiled graph agrees with its reference. Raises if the reference itself fails.

    `checked`: the program is compiled to check each memory access."""
    with dialects.make_context(), ir.Location.unknown():
        module, reference = ir.Module.parse(text), ir.Module.parse(text)  # compiling changes the first
        dialects.verify(module, "parse")
        function = find_function(reference, "graph")
        wanted = [ints(attributes[STRIDES.name]) for attributes in result_attributes(function)]
        storages = [STORAGE.in_(attributes) for attributes in result_attributes(function)]
        inputs = random_inputs(arguments_of(function), 0, INT_RANGE)
        given = [_clone(x) for x in inputs]
        expected = _after(reference, given)
        try:
            results = compile_module(module, options=Options.from_torch(None, {"checked": checked}))(inputs)
        except Exception as problem:  # any exception of a compiler stage is a failure
            return Failure.of(problem)
        failure = Reference(lambda: _after(reference, given), expected).compare(_named([*results, *inputs]))
    return failure or _check_memory(results, inputs, wanted, storages)


def run_reference(text: str) -> None:
    """Runs only the reference of a graph; lets its exceptions through."""
    with dialects.make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_in_place(module, random_inputs(arguments_of(find_function(module, "graph")), 0, INT_RANGE))


def _after(module: ir.Module, given: Sequence[Tensor]) -> dict[str, Tensor]:
    """The results of the reference, then its arguments after the run."""
    inputs = [_clone(x) for x in given]
    return _named([*run_in_place(module, inputs), *inputs])


def _named(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"result {i}": x for i, x in enumerate(tensors)}


def _clone(x: Tensor) -> Tensor:
    """A copy with the same strides, gaps included."""
    return with_strides(x.contiguous().clone(), x.stride())


def _check_memory(
    results: Sequence[Tensor], inputs: Sequence[Tensor], wanted: Sequence[list[int]], storages: Sequence[int]
) -> Failure | None:
    for i, (x, strides) in enumerate(zip(results, wanted, strict=False)):
        if any(n > 1 and s != w for n, s, w in zip(x.shape, x.stride(), strides, strict=True)):
            return Failure("wrong strides", f"result {i} has the strides {x.stride()}, not {strides}")
    placed = [*zip(results, storages, strict=False), *((x, i) for i, x in enumerate(inputs))]
    for (i, (x, a)), (j, (y, b)) in itertools.combinations(enumerate(placed), 2):
        if a != b and _overlap(x, y):
            return Failure("shared memory", f"results or arguments {i} and {j} share memory")
    return None


def _overlap(x: Tensor, y: Tensor) -> bool:
    if not x.numel() or not y.numel():
        return False
    (a, a_end), (b, b_end) = _extent(x), _extent(y)
    return a < b_end and b < a_end


def _extent(x: Tensor) -> tuple[int, int]:
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.itemsize
