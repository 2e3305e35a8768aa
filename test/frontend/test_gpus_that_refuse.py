"""GPUs that are too old or too small, or whose driver is: what can be made smaller is, the rest runs op by op in ATen.

There is no GPU here: tensors are fake, kernels are compiled and not launched, and what a GPU lacks is pretended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from cuesta.driver import make_program
from cuesta.driver.compile_graph import compile_aten_graph
from cuesta.driver.memory.step_memory import StepMemory
from cuesta.errors import KernelRefused, OutOfResources
from cuesta.export.compile_for import compile_for
from cuesta.frontend import devices
from cuesta.lowering.tt_to_binary import making
from cuesta.lowering.tt_to_binary.kernel import KernelBinary
from cuesta.lowering.tt_to_binary.kernels import Compiling
from cuesta.options import Options
from cuesta.passes import pipelines
from cuesta.passes.pipelines import Stage
from cuesta.reports import compile_report


@pytest.fixture(autouse=True)
def empty_report() -> Iterator[None]:
    compile_report.clear()
    yield
    compile_report.clear()


def limit_shared_memory(monkeypatch: pytest.MonkeyPatch, limit: int, refuses: bool = False) -> None:
    """Pretends that a block has this many bytes, or that Triton fails on more; the kernels are compiled as they are."""
    outcomes = Compiling.outcomes

    def limited(compiling: Compiling) -> list[Any]:
        return [_limited(outcome, limit, refuses) for outcome in outcomes(compiling)]

    monkeypatch.setattr(making.Compiling, "outcomes", limited)


def _limited(outcome: Any, limit: int, refuses: bool) -> Any:
    if isinstance(outcome, KernelBinary) and outcome.shared > limit:
        if refuses:
            return KernelRefused(f"Triton refuses kernel {outcome.name}")
        return OutOfResources(outcome.name, "cuda:90", "bytes of shared memory", outcome.shared, limit)
    return outcome


def transposed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A kernel that exchanges elements between threads, by shared memory, and one that does not."""
    return x.t().exp().clone(memory_format=torch.contiguous_format), torch.ones_like(x)


X = torch.ones(1024, 512)


@pytest.mark.parametrize("refuses", [False, True], ids=["too large", "refused"])
def test_a_kernel_that_is_too_large_gets_smaller_blocks(refuses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (before,) = (k for k in compile_for(transposed, X, "cuda:90").kernels if k.shared)
    limit_shared_memory(monkeypatch, before.shared // 3, refuses)
    made = {kernel.name: kernel for kernel in compile_for(transposed, X, "cuda:90").kernels}
    after = made[before.name]
    assert after.shared <= before.shared // 3
    assert after.grid[0] == 4 * before.grid[0]


def test_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_shared_memory(monkeypatch, 2048)
    compile_on_gpu(monkeypatch, transposed, loads=True)
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None
    halved = [kernel for kernel in graph.kernels if kernel["halvings"]]
    assert len(halved) == 1 and halved[0]["shared"] <= 2048
    assert f"(block halved x{halved[0]['halvings']}: too large for the GPU, or for Triton)" in str(cuesta.report())


def test_halved_blocks_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = pipelines.stages_for(Options.from_torch(None, {"target": "tt"}).target)
    halved = Stage("blocks", (*stages["blocks"].passes, "halve-blocks{times=6}"))
    monkeypatch.setitem(stages, "blocks", halved)
    x = torch.randn(48, 70)

    def function(x: torch.Tensor) -> Any:
        return torch.softmax(x, -1), x.t().contiguous(), x.sum(0), x.argmax(1), x.sum()

    torch._dynamo.reset()
    call = torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False})
    torch.testing.assert_close(call(x), function(x))


def test_what_no_block_is_small_enough_for_runs_in_aten(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_shared_memory(monkeypatch, -1)
    fallback = compile_on_gpu(monkeypatch, transposed, loads=True)
    assert "0 bytes of shared memory, and target cuda:90 has -1 for a block, however small its block" in fallback


def test_what_triton_fails_on_however_small_runs_in_aten(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_shared_memory(monkeypatch, -1, refuses=True)
    assert "Triton refuses kernel" in compile_on_gpu(monkeypatch, transposed, loads=True)


def test_a_gpu_that_is_too_old_runs_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    fallback = compile_on_gpu(monkeypatch, transposed, capability=(7, 0))
    assert "kernels cannot be made for Tesla V100: unknown target 'cuda:70'; the targets are" in fallback


def test_kernels_that_do_not_load_leave_the_graph_to_aten(monkeypatch: pytest.MonkeyPatch) -> None:
    fallback = compile_on_gpu(monkeypatch, transposed)
    assert "torch finds none on this machine" in fallback


def compile_on_gpu(
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
    capability: tuple[int, int] = (9, 0),
    loads: bool = False,
) -> str:
    """Compiles a function for a pretended GPU as torch.compile does; why it runs op by op, "" where it does not."""
    monkeypatch.setattr(devices.torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(devices.torch.cuda, "get_device_name", lambda device: "Tesla V100")
    if loads:
        monkeypatch.setattr(make_program, "load", lambda artefact, cache: _Loaded(artefact.metadata["program"]))
    with FakeTensorMode():
        graph = make_fx(function, tracing_mode="real")(torch.empty(1024, 512, device="cuda:0"))
    compile_aten_graph(graph, [], "inference", StepMemory(Options.from_torch(None, {"cache": False})))
    (report,) = cuesta.report().graphs
    return report.fallback or ""


class _Loaded:
    """In place of a program."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata
