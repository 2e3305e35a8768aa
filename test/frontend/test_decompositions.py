"""Which ops AOTAutograd takes apart for cuesta."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.frontend.attention import efficient_attention
from cuesta.frontend.decompositions.table import decompositions

aten = torch.ops.aten


def test_a_later_process_takes_from_the_cache_what_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_folder = decompositions.__wrapped__
    decompositions()
    made = of_folder(tmp_path)
    monkeypatch.setitem(sys.modules, "cuesta.frontend.aten", None)
    assert of_folder(tmp_path).keys() == made.keys() == decompositions().keys()
    with pytest.raises(ImportError):
        of_folder(tmp_path / "empty")


def test_torch_s_core_list_is_in() -> None:
    table = decompositions()
    assert {aten.mish.default, aten.tril.default, aten.huber_loss.default, aten.nan_to_num.default} <= set(table)


def test_what_has_a_rule_or_a_row_stays_whole() -> None:
    whole = {aten.native_layer_norm_backward.default, aten.gelu_backward.default, aten.silu.default}
    assert not whole & set(decompositions())
    x, scale = torch.randn(4, 8), torch.rand(8)
    assert decompositions()[aten.native_layer_norm.default](x, [8], scale, None, 1e-5) is NotImplemented


def test_what_draws_random_numbers_stays_whole() -> None:
    """But for attention, of which an op of ours draws the same numbers with the same kernel."""
    seeded = {op for op in decompositions() if torch.Tag.nondeterministic_seeded in op.tags}
    assert seeded <= efficient_attention.DECOMPOSITIONS.keys()
    assert torch.Tag.nondeterministic_seeded in torch.ops.cuesta.seeded_attention.default.tags


@pytest.mark.parametrize("k", [0, 1, 2, 3, -1])
def test_rot90_is_laid_out_as_in_eager(k: int) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    mine, eager = decompositions()[aten.rot90.default](x, k, [1, 2]), torch.rot90(x, k, [1, 2])
    torch.testing.assert_close(mine, eager)
    assert mine.stride() == eager.stride()


TARGET, WEIGHTS = torch.tensor([0, 3, 2, 0]), torch.rand(5) + 0.1
LOSSES: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor]] = {
    "class weights": (lambda x, t: F.cross_entropy(x, t, WEIGHTS, ignore_index=2), torch.randn(4, 5), TARGET),
    "class weights, none": (lambda x, t: F.nll_loss(x, t, WEIGHTS, reduction="none"), torch.randn(4, 5), TARGET),
    "one sample": (F.cross_entropy, torch.randn(5), TARGET[1]),
    "pixels": (F.cross_entropy, torch.randn(2, 5, 3, 2), torch.tensor([4, 1, 0, 2, 3, 1] * 2).reshape(2, 3, 2)),
}


@pytest.mark.parametrize("case", LOSSES.values(), ids=LOSSES.keys())
def test_losses_that_have_no_op_are_compiled(case: tuple[Callable[..., Any], torch.Tensor, torch.Tensor]) -> None:
    function, scores, target = case

    def gradient(run: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = scores.clone().requires_grad_()
        loss = run(x, target)
        loss.sum().backward()
        return loss.detach(), x.grad

    torch._dynamo.reset()
    compiled = gradient(torch.compile(function, backend="cuesta", dynamic=False))
    torch.testing.assert_close(compiled, gradient(function))
    assert [graph.aten_calls for graph in cuesta.report().graphs] == [[], []]


@pytest.mark.parametrize("dims", [[-2], [1], [-3, -2], None])
def test_a_norm_along_a_dim_of_one_is_without_it(dims: list[int] | None) -> None:
    x = torch.full((1, 1, 4), -2.0)
    norm = decompositions()[torch.ops.aten.linalg_vector_norm.default]
    torch.testing.assert_close(norm(x, 2, dims), torch.linalg.vector_norm(x, 2, dims))


@pytest.mark.parametrize("strides", [(0, 1, 3), (0, 5, 1), (1, 0, 3), (0, 0, 1)])
def test_what_is_scattered_into_shared_memory_gets_its_own_as_eagers(strides: tuple[int, ...]) -> None:
    shared = torch.arange(30.0).as_strided((3, 3, 5), strides)
    for op, rest in (
        (aten.select_scatter.default, (torch.full((3, 5), 7.0), 0, 1)),
        (aten.slice_scatter.default, (torch.full((3, 1, 5), 7.0), 1, 2)),
        (aten.diagonal_scatter.default, (torch.full((5, 3), 7.0),)),
    ):
        scatter = decompositions()[op]
        made, eager = scatter(shared, *rest), op(shared, *rest)
        assert made.stride() == eager.stride()
        assert made.equal(eager)
        assert scatter(made, *rest) is NotImplemented


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_huber_loss_has_the_type_of_its_input(reduction: str) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(x, y, reduction)

    x, y = torch.randn(8).bfloat16(), torch.randn(8)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(loss, backend="cuesta")(x, y), loss(x, y))
