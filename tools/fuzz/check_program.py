"""Judges one torch program: compiled against eager, outputs, gradients and written arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import torch

from cuesta.tools.accuracy import compare_values, same_form
from cuesta.tools.fuzz.failure import Failure
from cuesta.tools.fuzz.program import Program, Run, copies, input_tensors

Tensor = torch.Tensor

#: Runs of eager on inputs that are moved within their last place, which show what rounding decides.
NEIGHBOURS = 3
_WIDE = dict.fromkeys(("float32", "bfloat16", "float16"), "float64")
_NARROW = re.compile(r"torch\.(float32|bfloat16|float16)\b|\.float\(\)")


def check_program(text: str) -> Failure | None:
    """None where the compiled program does what eager does. Raises where eager fails, or tracing alone does harm."""
    program = Program.read(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = input_tensors(program.inputs, program.gradient)
        expected = program.run(program.function, copies(tensors))
        exact = _exact(text) or expected
        near = [program.run(program.function, _moved(tensors, seed)) for seed in range(NEIGHBOURS)]
        # AOTAutograd changes strides here and there (of what masked_fill_ wrote): its graph, not eager, is to be met.
        traced = _compiled_run(program, tensors, "aot_eager")
        if _compare(traced, expected, exact, near) is not None:
            raise ValueError("torch's own tracing changes what the program computes")  # it loses zero_() of f64 scalars
        try:
            actual = _compiled_run(program, tensors, "cuesta")
        except Exception as problem:  # whatever the compiler or its program raises is what is looked for
            return Failure.of(problem)
    return _check_form(actual, traced) or _compare(actual, expected, exact, near)


def _compiled_run(program: Program, tensors: Sequence[Tensor], backend: str) -> Run:
    torch._dynamo.reset()
    return program.run(torch.compile(program.function, backend=backend, dynamic=False), copies(tensors))


def _check_form(actual: Run, traced: Run) -> Failure | None:
    if actual.tensors.keys() != traced.tensors.keys():
        found, wanted = (", ".join(run.tensors) for run in (actual, traced))
        return Failure("wrong results", f"there are {found}; there should be {wanted}")
    for name, want in traced.tensors.items():
        for problem in same_form(name, actual.tensors[name], want):
            return Failure("wrong form", problem)
    # Two views of one intermediate result may become two tensors: only sharing too much is looked for.
    shared = set(actual.shared) - set(traced.shared)
    return Failure("shared memory", f"{sorted(shared)} share memory") if shared else None


def _exact(text: str) -> Run | None:
    """The program in float64 throughout; None where torch refuses that."""
    wide = Program.read(_NARROW.sub(lambda m: "torch.float64" if m[1] else ".double()", text))
    inputs = [(sizes, strides, _WIDE.get(dtype, dtype)) for sizes, strides, dtype in wide.inputs]
    tensors = input_tensors(inputs, wide.gradient)
    for x, y in zip(tensors, input_tensors(wide.inputs, False), strict=True):
        x.data.copy_(y)
    try:
        return wide.run(wide.function, tensors)
    except RuntimeError:
        return None


def _compare(actual: Run, expected: Run, exact: Run, near: Sequence[Run]) -> Failure | None:
    for name, want in expected.tensors.items():
        eagers = [want, *(run.tensors[name] for run in near)]
        wrong = compare_values(name, actual.tensors[name], eagers, exact.tensors[name])
        if wrong is not None:
            return Failure("wrong value", wrong)
    return None


def _moved(tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    moved = copies(tensors)
    for x in moved:
        if x.is_floating_point():
            errors = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
            x.data.copy_(x.data * (1 + torch.finfo(x.dtype).eps * errors))
    return moved
