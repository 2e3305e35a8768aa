"""Every kernel that the model suite makes for a GPU: right in the numpy interpreter, and taken by every compiler.

Checked are kernels of three models that have every op and kind of shape between them. With CUESTA_FULL=1 every
structure of all models is checked, of kernels that differ in their sizes only one, and then all of them, in eval as
well, and at the sizes of the benchmarks. Models are traced for CUDA, and for AMD, where attention comes apart: more
kernels.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable

import pytest
import torch

from cuesta.dialects.tt.interpreter import InterpreterError
from cuesta.lowering.tt_to_binary.kernels import start_compiling
from cuesta.targets import parse_target
from cuesta.tools.gpu_kernels.check import difference
from cuesta.tools.gpu_kernels.collect import SuiteKernel, collect, cover
from cuesta.tools.gpu_kernels.suite import SUITE, SuiteModel
from cuesta.tools.models.case import Size

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx1100")
MODELS = pytest.mark.parametrize("model", SUITE, ids=lambda model: model.name)


@functools.cache
def kernels_of(model: SuiteModel, training: bool = True, size: Size = "small", kind: str = "cuda") -> list[SuiteKernel]:
    """The kernels, which are the same for all targets of a kind."""
    torch._dynamo.reset()
    return collect(model, size, training, parse_target({"cuda": "cuda:80", "hip": "hip:gfx942"}[kind]))


def first_of_each_structure(kernels: Iterable[SuiteKernel]) -> list[SuiteKernel]:
    return list({kernel.structure: kernel for kernel in reversed(list(kernels))}.values())[::-1]


def of_three_models(kind: str = "cuda") -> list[SuiteKernel]:
    """Those of a decoder, an encoder of many rows, and a convolutional network in f32."""
    return [kernel for name in ("gpt2", "vit", "densenet121") for kernel in kernels_of(find(name), kind=kind)]


@functools.cache
def few(kind: str = "cuda") -> list[SuiteKernel]:
    """Kernels of the three models that have every op and kind of shape between them."""
    return cover(first_of_each_structure(of_three_models(kind)))


@functools.cache
def representatives() -> list[SuiteKernel]:
    on_amd = kernels_of(find("bert-base"), kind="hip")
    return first_of_each_structure([*(kernel for model in SUITE for kernel in kernels_of(model)), *on_amd])


def check_numbers(kernels: Iterable[SuiteKernel]) -> None:
    wrong = [message for kernel in kernels if (message := difference(kernel))]
    assert not wrong, "\n".join(wrong)


def check_compilers(kernels: list[SuiteKernel], target: str) -> None:
    """Every kernel becomes machine code, but for those of GPUs of another kind."""
    kind = parse_target(target).kind
    kernels = [kernel for kernel in kernels if not kernel.needs_kind or kernel.kind == kind]
    outcomes = start_compiling([kernel.text for kernel in kernels], parse_target(target)).outcomes()
    refused = [
        f"{kernel}: {outcome}"
        for kernel, outcome in zip(kernels, outcomes, strict=True)
        if isinstance(outcome, Exception)
    ]
    assert not refused, "\n".join(refused)


def test_every_op_and_kind_of_shape_computes_what_its_linalg_does() -> None:
    check_numbers(few())


@pytest.mark.parametrize("target", TARGETS)
def test_every_op_and_kind_of_shape_compiles_for(target: str) -> None:
    check_compilers(few(parse_target(target).kind), target)


@pytest.mark.slow
@MODELS
def test_every_structure_computes_what_its_linalg_does(model: SuiteModel) -> None:
    chosen = [kernel for kernel in representatives() if kernel.origin.startswith(model.name)]
    assert chosen
    check_numbers(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_structure_compiles_for(target: str) -> None:
    check_compilers(representatives(), target)


@pytest.mark.skipif("CUESTA_XPU_PYTHON" not in os.environ, reason="make test-intel sets up the environment for it")
def test_every_structure_becomes_spirv() -> None:
    check_compilers(representatives(), "xpu")


def test_the_models_have_what_reductions_can_become() -> None:
    looped = [kernel for kernel in of_three_models() if "scf.for" in kernel.text.text]
    split = [kernel for kernel in of_three_models() if "sum" in kernel.text.name and kernel.grid[0] > 1]
    assert looped and split


@pytest.mark.slow
@pytest.mark.timeout(3600)
@MODELS
@pytest.mark.parametrize("target", TARGETS)
def test_all_kernels_of_the_benchmarks_compile_for(target: str, model: SuiteModel) -> None:
    kind = parse_target(target).kind
    check_compilers([k for training in (True, False) for k in kernels_of(model, training, "full", kind)], target)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@MODELS
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_all_kernels_compute_what_their_linalg_does(training: bool, model: SuiteModel) -> None:
    on_cuda, on_amd = (kernels_of(model, training, kind=kind) for kind in ("cuda", "hip"))
    check_numbers({kernel.text: kernel for kernel in (*on_cuda, *on_amd)}.values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"arith.addf"', '"arith.subf"'),
        ("<{predicate = 2 : i64}>", "<{predicate = 3 : i64}>"),
    ],
    ids=["operator", "bound"],
)
def test_a_kernel_that_computes_something_else_is_noticed(old: str, new: str) -> None:
    """Small kernels of GPT-2's are changed: sums become differences, and masks let one element more through."""
    changed = sorted(
        (k for k in kernels_of(find("gpt2"), kind="cuda") if old in k.text.text), key=lambda k: len(k.text.text)
    )
    assert len(changed) > 4
    for kernel in changed[:4]:
        text = dataclasses.replace(kernel.text, text=kernel.text.text.replace(old, new))
        assert noticed(dataclasses.replace(kernel, text=text)), kernel


def noticed(kernel: SuiteKernel) -> bool:
    try:
        return difference(kernel) is not None
    except InterpreterError:  # it reaches outside
        return True


def find(name: str) -> SuiteModel:
    return next(model for model in SUITE if model.name == name)
