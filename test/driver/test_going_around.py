"""Kernels of ours that do not compile: their ops are called in ATen, the rest stays compiled, and somebody says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch.testing import assert_close

import cuesta
from cuesta._mlir import ir, memref
from cuesta.dialects import walk
from cuesta.driver import failed_kernels
from cuesta.driver import lower as compiling
from cuesta.driver.failed_kernels import failing, names_in
from cuesta.errors import CompileError, PassFailed, VerifyError
from cuesta.lowering.host_to_llvm import object_code
from cuesta.passes.infra.registry import find_pass
from cuesta.reports.compile_report import GraphReport

Warnings = list[str]


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Warnings]:
    """What is warned of; failures are gone around, and at the end no file may be left of them."""
    monkeypatch.delenv("CUESTA_STRICT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    heard: Warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("cuesta")
    logger.addHandler(handler)
    yield heard
    logger.removeHandler(handler)
    assert not list(tmp_path.glob("cuesta_failed_*"))


#: The ops of `several` that kernels compute if one for softmax cannot be made.
ALL_BUT_SOFTMAX = {"abs", "sqrt", "sum", "add", "gelu", "tanh"}


def in_kernels(graph: GraphReport) -> set[str]:
    return {op for kernel in graph.kernels for op in kernel["ops"]}


def breaks(monkeypatch: pytest.MonkeyPatch, name: str, wrong: str, how: Callable[[ir.Operation], None]) -> None:
    """Has a pass do `how` to each op whose name ends in `wrong`, before it runs."""
    broken = find_pass(name)
    assert broken is not None
    run = broken.run

    def run_broken(self: Any, module: ir.Module) -> None:
        for op in walk(module.operation):
            if op.name.endswith(wrong):
                how(op)
        run(self, module)

    monkeypatch.setattr(broken, "run", run_broken)


def refuse(op: ir.Operation) -> None:
    raise KeyError("nobody has thought of this op")


def corrupt(op: ir.Operation) -> None:
    """Leaves IR behind that MLIR's verifier refuses: fewer indices than a buffer has dims."""
    kind = ir.MemRefType.get([4], ir.F32Type.get())
    hints = {"isWrite": "false", "localityHint": "2 : i32", "isDataCache": "true"}
    with ir.InsertionPoint(op), op.location:
        buffer = memref.AllocaOp(kind, [], []).result
        attributes = {name: ir.Attribute.parse(text) for name, text in hints.items()}
        ir.Operation.create("memref.prefetch", operands=[buffer], attributes=attributes)


def compiled(function: Callable[..., Any], *arguments: Tensor, **options: Any) -> GraphReport:
    """The report of `function`, whose results are eager's."""
    made = torch.compile(function, backend="cuesta", options={"cache": False, **options})(*arguments)
    assert_close(made, function(*arguments))
    (graph,) = cuesta.report().graphs
    return graph


def several(x: Tensor, w: Tensor, row: Tensor) -> tuple[Tensor, ...]:
    """Three kernels, the first of which computes exp, and a product with an epilogue, which computes erf and tanh."""
    return torch.softmax(x, -1), w.abs().sqrt().sum(0), F.gelu(x @ w + row).tanh()


def operands() -> list[Tensor]:
    return [torch.rand(32, 32), torch.randn(32, 48), torch.randn(48)]


@pytest.mark.parametrize(
    ("stage", "how"),
    [
        *((name, refuse) for name in ("tile-kernels", "outline-tiles", "expand-math")),
        ("expand-math", corrupt),
    ],
)
def test_the_kernel_at_fault_goes_to_aten_and_the_others_stay(
    stage: str, how: Callable[[ir.Operation], None], warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, stage, "math.exp", how)
    graph = compiled(several, *operands())
    assert [call["op"] for call in graph.aten_calls] == ["aten._softmax.default", "aten.mm.default"]
    assert in_kernels(graph) == ALL_BUT_SOFTMAX
    assert graph.fallback is None and [failed["ops"] for failed in graph.instead] == [["_softmax"]]
    assert any(line.startswith("  no kernel for _softmax, called in ATen instead: ") for line in graph.lines())
    (warning,) = warnings
    assert warning.startswith("the inference graph calls _softmax in ATen: ")
    assert "CUESTA_STRICT=1 " in warning


@pytest.mark.parametrize("stage", ["cuesta-to-linalg", "form-kernels"])
def test_a_failure_before_there_are_kernels(stage: str, warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, stage, "cuesta.exp" if stage == "cuesta-to-linalg" else "math.exp", refuse)
    graph = compiled(several, *operands())
    assert [failed["ops"] for failed in graph.instead] == [["_softmax"]]
    assert in_kernels(graph) == ALL_BUT_SOFTMAX and len(warnings) == 1


def test_of_a_kernel_with_a_product_the_product_alone_goes(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "multiply-panels", "arith.mulf", lambda op: refuse(op) if _is_of_product(op) else None)
    graph = compiled(several, *operands(), gemm="kernel")
    assert [failed["ops"] for failed in graph.instead] == [["mm"]]
    assert ["add", "gelu", "tanh"] in [kernel["ops"] for kernel in graph.kernels]
    assert len(warnings) == 1


def _is_of_product(op: ir.Operation) -> bool:
    return "mm" in names_in(op.location)


def test_what_follows_a_product_goes_where_it_fails_too(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "multiply-panels", "math.erf", refuse)
    graph = compiled(several, *operands(), gemm="kernel")
    assert [failed["ops"] for failed in graph.instead] == [["mm"], ["add", "gelu", "tanh"]]
    assert in_kernels(graph) == {"_softmax", "abs", "sqrt", "sum"} and len(warnings) == 1


def test_all_layers_go_at_once(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel is launched for all, and its ops name those of the first layer."""

    def layers(x: Tensor) -> Tensor:
        for _ in range(8):
            x = torch.softmax(torch.cat([x, x])[1:33], -1) + x.mean()
        return x

    breaks(monkeypatch, "expand-math", "math.exp", refuse)
    graph = compiled(layers, torch.rand(32, 32))
    (failed,) = graph.instead
    assert "_softmax" in failed["ops"]
    assert sum(call["count"] for call in graph.aten_calls if call["op"] == "aten._softmax.default") == 8
    assert len(warnings) == 1


def test_training(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "expand-math", "math.exp", refuse)
    x, w, row = (t.requires_grad_() for t in operands())
    torch.compile(several, backend="cuesta", options={"cache": False})(x, w, row)[0].square().sum().backward()
    grad, x.grad = x.grad, None
    several(x, w, row)[0].square().sum().backward()
    assert_close(grad, x.grad)


def test_sizes_stay_open(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "expand-math", "math.exp", refuse)
    function = torch.compile(lambda x: (torch.softmax(x, -1), x.sqrt().sum(0)), backend="cuesta", dynamic=True)
    for n in (5, 9, 30):
        x = torch.rand(n, 2 * n)
        assert_close(function(x), (torch.softmax(x, -1), x.sqrt().sum(0)))
    (graph,) = cuesta.report().graphs
    assert graph.specialised is None and in_kernels(graph) == {"sqrt", "sum"} and len(warnings) == 1


def _breaks_code(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Has LLVM fail, once it is waited for, on a module in which a function is called `wrong`."""
    begin = object_code.begin_object

    def begin_broken(module: ir.Module, level: int) -> Callable[[], bytes]:
        if any(wrong in str(op.attributes.get("sym_name")) for op in walk(module.operation)):
            return _refuse_code
        return begin(module, level)

    monkeypatch.setattr(compiling, "begin_object", begin_broken)
    monkeypatch.setattr(failed_kernels, "begin_object", begin_broken)


def _refuse_code() -> bytes:
    raise CompileError("LLVM refused the module")


def test_a_failure_of_llvm_that_the_first_call_meets(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    _breaks_code(monkeypatch, "softmax")
    graph = compiled(several, *operands())
    assert [failed["ops"] for failed in graph.instead] == [["_softmax"]]
    assert in_kernels(graph) == ALL_BUT_SOFTMAX and len(warnings) == 1


def test_where_nothing_helps_the_graph_runs_op_by_op(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "host-to-llvm", "func.func", refuse)
    graph = compiled(several, *operands())
    assert graph.fallback is not None and graph.fallback.startswith("pass 'host-to-llvm' raised KeyError")
    assert not graph.instead
    (warning,) = warnings
    assert warning.startswith("the inference graph runs op by op: ") and "pass 'host-to-llvm' raised" in warning


def test_llvm_that_fails_on_all_leaves_the_graph_op_by_op(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "begin_object", lambda module, level: _refuse_code)
    kept = torch.randn(3)

    def function(x: Tensor, n: int, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(n)
        return x * kept, y, y.exp(), x.t()

    made = torch.compile(function, backend="cuesta", options={"cache": False})
    x, y = torch.ones(4, 3), torch.randn(2)
    for n in (2, 2):
        expected = function(x.clone(), n, y)
        assert_close(made(x, n, y), expected)
    assert len(warnings) == 1 and cuesta.report().graphs[0].fallback == "LLVM refused the module"


def test_sizes_that_fail_are_an_error_of_ours_and_not_undecided(
    warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, "host-to-llvm", "func.func", refuse)
    function = torch.compile(lambda x: x.exp() + 1, backend="cuesta", dynamic=True)
    x = torch.randn(3, 4)
    assert_close(function(x), x.exp() + 1)
    first, second = warnings
    assert first.startswith("the inference graph is compiled for each set of sizes: ") and "pass 'host" in first
    assert second.startswith("the inference graph runs op by op")


@pytest.mark.parametrize(("how", "kind"), [(refuse, PassFailed), (corrupt, VerifyError)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_strict(
    dynamic: bool,
    how: Callable[[ir.Operation], None],
    kind: type[CompileError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    breaks(monkeypatch, "expand-math", "math.exp", how)
    with pytest.raises(BackendCompilerFailed, match="to reproduce: cuesta-opt") as caught:
        torch.compile(several, backend="cuesta", dynamic=dynamic, options={"cache": False})(*operands())
    assert type(caught.value.inner_exception) is kind
    assert len(list(tmp_path.glob("cuesta_failed_*"))) == 1


def test_exported_programs(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(x, -1)

    breaks(monkeypatch, "expand-math", "math.exp", refuse)
    x = torch.randn(4, 8)
    program = cuesta.compile(torch.export.export(Model(), (x,)), options={"cache": False})
    assert_close(program(x), torch.softmax(x, -1))
    assert len(warnings) == 1


def test_a_kept_program_without_kernels_is_made_anew_where_that_is_an_error(
    warnings: Warnings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"cache_dir": tmp_path / "cache"}
    with monkeypatch.context() as patch:
        breaks(patch, "expand-math", "math.exp", refuse)
        torch.compile(several, backend="cuesta", options=options)(*operands())
    assert len(warnings) == 1
    for strict, hit, instead in ((False, True, 1), (True, False, 0)):
        torch._dynamo.reset()
        torch.compiler.reset()
        if strict:
            monkeypatch.setenv("CUESTA_STRICT", "1")
        torch.compile(several, backend="cuesta", options=options)(*operands())
        (graph,) = cuesta.report().graphs
        assert (graph.cache["hit"], len(graph.instead)) == (hit, instead)


def test_few_trials_find_those_that_fail() -> None:
    names = [f"k{i}" for i in range(100)]
    trials = []

    def fails(some: Any) -> bool:
        trials.append(some)
        return not {"k3", "k77"}.isdisjoint(some)

    assert failing(names, fails) == ["k3", "k77"]
    assert len(trials) < 35
