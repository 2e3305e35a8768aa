"""Graphs with symbolic sizes on the way to a GPU, its kernels interpreted: one program for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.driver.lower import compile_module
from cuesta.errors import CompileError
from cuesta.runtime.kernel_table import KernelTable
from cuesta.tools.models import find_model

Tensor = torch.Tensor
Case = tuple[Callable[..., Any], Callable[[int], tuple[Tensor, ...]]]
R = torch.randn

#: Traced with n = 4; among the others are sizes below it, sizes that a block does not divide, and rows that do not fit
#: the block of the traced ones.
SIZES = (4, 5, 3, 70)

CASES: dict[str, Case] = {
    "pointwise": (lambda x, y: torch.tanh(x * y + 1).exp(), lambda n: (R(n, 37), R(n, 37))),
    "softmax": (lambda x: x.softmax(-1), lambda n: (R(3, n * 17),)),
    "layer norm": (lambda x: F.layer_norm(x * 2, (64,)), lambda n: (R(n, 5, 64).bfloat16(),)),
    "layer norm over a size": (lambda x: F.layer_norm(x, x.shape[-1:]), lambda n: (R(5, 7 * n),)),
    "sums, extremes, places": (
        lambda x: (x.sum(0), (x + 1).sum(1), x.max(), x.mean(), x.argmax(1), x.var(0)),
        lambda n: (R(n * 3, n * 11),),
    ),
    "sums over two classes": (lambda x: x.sum((0, 2)), lambda n: (R(n, 6, n + 90),)),
    "a running sum": (lambda x: x.cumsum(1) * 2, lambda n: (R(n, n + 2),)),
    "running sums in parts": (
        lambda x: (x.softmax(1).cumsum(1) + x.sum(1, keepdim=True), x.cummax(1).values, x.cumsum(1).amax(1)),
        lambda n: (R(2, n * 300),),
    ),
    "transposed": (lambda x, y: x.t() + y, lambda n: (R(n * 5, n * 3), R(n * 3, n * 5))),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, lambda n: (R(n, 16), torch.randint(0, n, (n, n + 3)))),
    "a mask": (
        lambda x: torch.where(torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[0]), x, 0.0).softmax(-1),
        lambda n: (R(n * 3, n * 3),),
    ),
    "an offset that depends on the call": (lambda x: x[-2:] * 2, lambda n: (R(n + 2),)),
    "a size as a number": (lambda x: x * x.shape[0] + x.shape[1], lambda n: (R(n, 7 * n),)),
}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    options = {"target": "tt", "cache": False, **options}
    return torch.compile(function, backend="cuesta", dynamic=True, fullgraph=True, options=options)


def check(call: Callable[..., Any], eager: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    tolerance = 2e-2 if inputs[0].dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(call(*inputs), eager(*inputs), rtol=tolerance, atol=tolerance, check_stride=True)


@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_sizes(name: str) -> None:
    function, make = CASES[name]
    call = compiled(function)
    for n in SIZES:
        check(call, function, make(n))
    assert len(cuesta.report().graphs) == 1


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_transformer_of_any_batch_and_length(name: str) -> None:
    built = find_model(name).make(layers=1, hidden=64, vocabulary=100, length=9)
    model = built.module.eval()
    call = compiled(lambda inputs: model(**inputs).logits)
    for batch, length in ((2, 9), (3, 9), (5, 12), (2, 133)):
        inputs = {"input_ids": torch.randint(0, 100, (batch, length))}
        if "attention_mask" in built.inputs:
            inputs["attention_mask"] = (torch.arange(length) < torch.arange(length - batch, length)[:, None]).long()
        with torch.no_grad():
            torch.testing.assert_close(call(inputs), model(**inputs).logits, rtol=1e-3, atol=1e-3)
    assert len(cuesta.report().graphs) == 1


def test_training_and_its_gradients() -> None:
    model = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    call = compiled(model)
    for batch, length in ((2, 9), (3, 9), (5, 7), (2, 40)):
        x = R(batch, length, 32)
        gradients = []
        for run in (call, model):
            model.zero_grad()
            run(x).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
    assert len(cuesta.report().graphs) == 2  # forward and backward


def test_a_running_sum_longer_than_its_block_takes_it_in_parts() -> None:
    call = compiled(lambda x: x.cumsum(1))
    for n in (40, 50, 2048, 2049, 40000, 60):
        torch.testing.assert_close(call(torch.ones(2, n)), torch.ones(2, n).cumsum(1))
    assert [graph.specialised for graph in cuesta.report().graphs] == [None]


VERSIONS = """
module attributes {cuesta.target = "tt", cuesta.hints = {s0 = 32 : i64, s1 = 64 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]})
      -> (tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}, tensor<?xf32, ["s0"]> {cuesta.strides = [1]},
          tensor<?xf32, ["s1"]> {cuesta.strides = [1]}, tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) {
    %0 = "cuesta.softmax"(%x) {dim = 1 : i64, safe = 0 : i64}
        : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x?xf32, ["s0", "s1"]>
    %1 = "cuesta.sum"(%0) {dims = [1], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s0"]>
    %2 = "cuesta.sum"(%x) {dims = [0], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s1"]>
    %3 = "cuesta.cumsum"(%x) {dim = 1 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x?xf32, ["s0", "s1"]>
    return %0, %1, %2, %3
        : tensor<?x?xf32, ["s0", "s1"]>, tensor<?xf32, ["s0"]>, tensor<?xf32, ["s1"]>, tensor<?x?xf32, ["s0", "s1"]>
  }
}"""


def test_each_set_of_sizes_runs_the_versions_that_are_right_for_it() -> None:
    with make_context():
        program = compile_module(ir.Module.parse(VERSIONS))
    kernels = program.metadata["kernels"]
    late = {kernel["name"] for kernel in kernels if kernel["late"]}
    assert late and all("__" in name for name in late)
    like_traced = ((32, 64),)
    used: set[int] = set()
    others = (
        (1, 1),
        (17, 48),
        (16, 16),
        (48, 32),
        (33, 64),
        (32, 63),
        (7, 130),
        (9, 128),
        (70, 2000),
        (0, 64),
        (32, 0),
        (5, 2032),
    )
    for rows, columns in (*like_traced, *others):
        x = R(rows, columns)
        values = {"s0": rows, "s1": columns}
        assert program.admits(values)
        sized = program.with_sizes(values)
        assert bool(sized.metadata["late"]) == ((rows, columns) in others)
        used |= set(sized.metadata["late"])
        expected = [x.softmax(1), x.softmax(1).sum(1), x.sum(0), x.cumsum(1)]
        torch.testing.assert_close(sized([x]), expected, rtol=1e-5, atol=1e-4)
    assert len(used) > 6


def test_a_kernel_for_other_sizes_that_cannot_be_made_leaves_them_to_a_program_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    call = compiled(lambda x: x.softmax(-1))
    check(call, lambda x: x.softmax(-1), (R(4, 32),))

    def refuse(table: KernelTable, numbers: Sequence[int]) -> None:
        raise CompileError("Triton refuses it")

    monkeypatch.setattr(KernelTable, "complete", refuse)
    for n in (33, 32, 64):
        check(call, lambda x: x.softmax(-1), (R(4, n),))
    first, *others = cuesta.report().graphs
    assert first.specialised is None and len(others) == 2 and all(g.specialised for g in others)


def test_no_elements_are_no_launch() -> None:
    module = """
    module attributes {cuesta.target = "tt", cuesta.hints = {s0 = 8 : i64}} {
      func.func @graph(%x: tensor<?x4xf32, ["s0"]> {cuesta.strides = [4, 1]})
          -> (tensor<?x4xf32, ["s0"]> {cuesta.strides = [4, 1]}, tensor<4xf32> {cuesta.strides = [1]}) {
        %0 = "cuesta.exp"(%x) : (tensor<?x4xf32, ["s0"]>) -> tensor<?x4xf32, ["s0"]>
        %1 = "cuesta.sum"(%x) {dims = [0], keepdim = 0 : i64} : (tensor<?x4xf32, ["s0"]>) -> tensor<4xf32>
        return %0, %1 : tensor<?x4xf32, ["s0"]>, tensor<4xf32>
      }
    }"""
    with make_context():
        program = compile_module(ir.Module.parse(module))
    for n in (0, 3):
        x = R(n, 4)
        results = program.with_sizes({"s0": n})([x])
        torch.testing.assert_close(results, [x.exp(), x.sum(0)])


CUT: dict[str, Case] = {
    "a sum of all": (lambda x: x.square().sum(), lambda n: (R(n * 20, 517),)),
    "columns below a batch": (lambda x: x.sum((0, 1)), lambda n: (R(n, n * 200, 32),)),
    "columns of rows that were batches": (lambda x: x.flatten(0, 1).sum(0), lambda n: (R(n, n * 200, 32),)),
    "batch norm in training": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda n: (R(n * 3, 4, 50, n * 12),),
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_a_long_reduction_is_cut_along_sizes_that_depend_on_the_call(name: str) -> None:
    torch._dynamo.reset()
    function, make = CUT[name]
    call = compiled(function)
    for n in (8, 9, 3, 16):
        inputs = make(n)
        exact = function(*(x.double() for x in inputs)).float()
        torch.testing.assert_close(call(*inputs), exact, rtol=1e-4, atol=1e-4)
    (graph,) = cuesta.report().graphs
    assert graph.launches > 1


ENDS: dict[str, Case] = {
    "columns": (lambda x, y: ((x * y).sum(0), (-x).amax(0), x.mean(0)), lambda n: (R(n, 40), R(40))),
    "all of one dim": (lambda x: (x.bfloat16().sum(), x.amax(), (x - 9).amin()), lambda n: (R(n * 10),)),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_long_reduction_that_nothing_divides_is_cut_evenly(name: str) -> None:
    torch._dynamo.reset()
    function, make = ENDS[name]
    call = compiled(function)
    # Of the others some leave nothing at the end, much, and less than there are parts.
    for n in (4000, 4096, 4095, 7, 12001):
        inputs = make(n)
        check(call, function, inputs)
    (graph,) = cuesta.report().graphs
    assert graph.launches > 1


def test_a_long_variance_that_nothing_cuts_is_compiled_for_each_set_of_sizes() -> None:
    torch._dynamo.reset()
    call = compiled(lambda x: x.var())
    for n in (270000, 270001):
        check(call, lambda x: x.var(), (R(n),))
        assert "not split into parts" in (cuesta.report().graphs[-1].specialised or "")
