"""`options={"checked": True}`: right programs run, a wrong one is named; without the option nothing is another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.exc import BackendCompilerFailed

import cuesta
from cuesta.dialects.host import operands
from cuesta.driver.stage_pipelines import pipeline_of
from cuesta.errors import BoundsError
from cuesta.options import Options
from cuesta.passes.pipelines import CHECKS, stages_for
from cuesta.reports import compile_report
from cuesta.targets import CPU
from cuesta.tools import cuesta_run
from cuesta.tools.fuzz.failure import Note
from cuesta.tools.fuzz.graphs.check_graph import check_graph
from cuesta.tools.fuzz.graphs.random_graphs import make_blocks_graph, make_graph
from cuesta.tools.fuzz.programs.check_program import check_program
from cuesta.tools.fuzz.programs.random_programs import make_program, make_sized_program
from cuesta.tools.model_suite.check import OPTIONS, WAYS, check_case
from cuesta.tools.models import SUITE

Tensor = torch.Tensor

#: Beside these `python -m cuesta.tools.fuzz graphs --checked` goes through any number.
GRAPHS, BLOCKS, PROGRAMS, SIZED = range(3000, 3020), range(3000, 3006), range(3000, 3002), range(1)
#: The models of the suite that compile soonest.
MODELS = ("a recommender (embedding bags)", "control flow by data", "FFT")


def compiled(function: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"cache": False, "checked": True, **options}
    return torch.compile(function, backend="cuesta", dynamic=dynamic, options=options)


def check(function: Callable[..., Any], *arguments: Any, dynamic: bool | None = None, **options: Any) -> None:
    """`function`, checked, gives what it gives in eager, and every graph of it is compiled."""
    call = compiled(function, dynamic, **options)
    torch.testing.assert_close(call(*arguments), function(*arguments))
    assert all(graph.fallback is None for graph in cuesta.report().graphs)


def ragged(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """Products, rows, columns and slices of sizes that fill no vector."""
    y = torch.relu(x @ w + b)
    return torch.softmax(y * 2, -1), (x + 1).sum(0), x[::2, 1:] * 3, x.T.contiguous() + 1


X, W, B = torch.randn(37, 19), torch.randn(19, 50), torch.randn(50)


@pytest.mark.parametrize("gemm", ["kernel", "library"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_ragged_sizes(dynamic: bool, gemm: str) -> None:
    check(ragged, X, W, B, dynamic=dynamic, gemm=gemm)


def test_attention_and_its_gradient() -> None:
    q, k, v = (torch.randn(2, 3, 37, 16, requires_grad=True) for _ in range(3))
    call = compiled(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), attention="kernel")
    grads = torch.autograd.grad(call(q, k, v).sum(), (q, k, v))
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum(), (q, k, v))
    torch.testing.assert_close(grads, wanted)


def test_positions_and_writes_at_positions() -> None:
    table, at = torch.randn(11, 7), torch.randint(11, (5, 3))
    check(
        lambda t, i: (t[i] * 2, t.index_add(0, i[:, 0], torch.ones(5, 7)), t.clone().index_fill_(0, i[0], 1)), table, at
    )


def test_large_results_and_the_arena_have_zones() -> None:
    x = torch.randn(700, 700)
    check(lambda x: ((x + 1).cumsum(0).sort(1).values * 2, x.mT @ x), x)


def test_target_tt() -> None:
    check(ragged, X, W, B, target="tt")
    check(ragged, X, W, B, target="tt", dynamic=True)


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_kernel_that_is_wrong_is_named(target: str, dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a kernel went one row too far: what it may touch is said to be a row less."""
    less = operands.Region.nbytes.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(operands.Region, "nbytes", property(lambda region: less(region) - 4 * 19))
    call = compiled(lambda x: x * 3 + 1, dynamic, target=target)
    with pytest.raises(BoundsError, match=r"(?s)kernel mul_add.*(a read|tt\.load).*(buffer 0|argument 0)") as raised:
        call(X)
    if target == "cpu":
        assert f"test_checked.py:{test_a_kernel_that_is_wrong_is_named.__code__.co_firstlineno + 6}" in str(
            raised.value
        )


@pytest.mark.parametrize("dumped_checked", [False, True])
def test_a_dump_with_an_edited_kernel_is_checked(
    tmp_path: Path, dumped_checked: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(lambda x: x * 3, checked=dumped_checked, dump=tmp_path)(torch.randn(7))
    (file,) = tmp_path.glob("*/06_loops.mlir")
    text = file.read_text()
    assert text.count(" = 0 to 7 ") == 1
    wrong = text.replace(" = 0 to 7 ", " = 0 to 8 ")
    for module, told in ((text, ""), (wrong, "kernel mul: a read up to 4 bytes behind the end of its buffer 0")):
        file.write_text(module)
        status, errors = cuesta_run.main(["--checked", str(file)]), capsys.readouterr().err
        assert (status, told in errors) == (1 if told else 0, True), errors


def test_a_view_that_leaves_its_memory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where what failed is left
    own = operands.memory_of
    monkeypatch.setattr(operands, "memory_of", lambda value: (own(value)[0], own(value)[1] + 4))
    with pytest.raises(
        BackendCompilerFailed, match="CompileError: operand 0 of kernel .* takes the bytes from 4 to 2816 of argument 0"
    ):
        compiled(lambda x: x * 3)(X)


def test_without_the_option_no_stage_and_no_key_is_another() -> None:
    plain, checked = Options.from_torch(), Options.from_torch(None, {"checked": True})
    for stage in stages_for(CPU).values():
        assert pipeline_of(stage, plain).text == stage.pipeline
        assert (pipeline_of(stage, checked).text != stage.pipeline) == (stage.name in CHECKS)
    assert "checked" not in plain.key() and checked.key() == f"{plain.key()};checked=True"


def test_the_llvm_without_the_option_knows_nothing_of_it(tmp_path: Path) -> None:
    texts = {}
    for checked in (False, True):
        folder = tmp_path / str(checked)
        compiled(ragged, gemm="kernel", checked=checked, dump=folder)(X, W, B)
        (file,) = folder.glob("*/07_llvm.mlir")
        texts[checked] = file.read_text()
    for word in ("inside", "cuesta_bounds", "cmpxchg", "cuesta.accesses", "cuesta.checked"):
        assert word in texts[True] and word not in texts[False]


def test_a_checked_program_is_kept_apart_and_read_from_the_cache(tmp_path: Path) -> None:
    for checked, hit in ((False, False), (True, False), (True, True), (False, True)):
        compile_report.clear()
        compiled(ragged, checked=checked, cache=True, cache_dir=tmp_path)(X, W, B)
        assert [graph.cache["hit"] for graph in cuesta.report().graphs] == [hit]


@pytest.mark.parametrize("seed", GRAPHS)
def test_random_graphs(seed: int) -> None:
    assert check_graph(make_graph(seed), checked=True) is None


@pytest.mark.parametrize("seed", BLOCKS)
def test_random_graphs_in_blocks(seed: int) -> None:
    assert check_graph(make_blocks_graph(seed), checked=True) is None


@pytest.mark.parametrize("seed", PROGRAMS)
def test_random_programs(seed: int) -> None:
    assert check_program(make_program(seed), checked=True) is None


@pytest.mark.parametrize("seed", SIZED)
def test_random_programs_of_several_sizes(seed: int) -> None:
    assert isinstance(check_program(make_sized_program(seed), checked=True), Note)


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str) -> None:
    (case,) = (case for case in SUITE if case.name == name)
    ways = {way: WAYS[way] for way in ("eval", "training")}
    assert [v.wrong for v in check_case(case, ways, {**OPTIONS, "checked": True}).values()] == [None, None]
