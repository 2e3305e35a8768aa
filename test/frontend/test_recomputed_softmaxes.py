"""Gradients of a softmax in f32 compute its result anew, from scores in bf16 and two numbers of each row."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import cuesta

HEADS, ROWS, DIM = 4, 64, 8
SCORES = HEADS * ROWS * ROWS
#: Bytes of what else a step of `step` saves: factors, and a row's numbers.
REST = 12 * HEADS * ROWS * DIM + 16 * HEADS * ROWS

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def probabilities(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Attention's weights as autocast computes them: the products in bf16, the softmax in f32."""
    return torch.softmax((q.bfloat16() @ k.bfloat16().transpose(-1, -2)) * 0.3 + mask, -1)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (probabilities(q, k, mask).bfloat16() @ v.bfloat16()).float()


def layers(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Two layers with one mask."""
    return attention(attention(q, k, v, mask), k, v, mask)


def dropped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    kept = torch.nn.functional.dropout(probabilities(q, k, mask), 0.5)
    return (kept.bfloat16() @ v.bfloat16()).float()


def bounded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The mask's least number is the least score, as in XGLM."""
    scores = torch.maximum(q.bfloat16() @ k.bfloat16().transpose(-1, -2) + mask, torch.tensor(-1e4))
    return (torch.softmax(scores, -1).bfloat16() @ v.bfloat16()).float()


def merged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Masks that differ along one of two dims, which are one in the softmax."""
    masks = torch.stack([mask, 0.5 * mask])
    scores = (q.bfloat16() @ k.bfloat16().transpose(-1, -2)).view(2, HEADS // 2, ROWS, ROWS) + masks
    return (torch.softmax(scores.view(HEADS, ROWS, ROWS), -1).bfloat16() @ v.bfloat16()).float()


def checkpointed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    result: Tensor = checkpoint(layers, q, k, v, mask, use_reentrant=False)
    return result


def in_f32(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) + mask, -1) @ v


def read_wide(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return probabilities(q, k, mask) @ v


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    made = [torch.randn(HEADS, ROWS, DIM, requires_grad=True) for _ in range(3)]
    return [*made, torch.where(torch.rand(1, 1, ROWS) < 0.2, -1e5, 0.0)]


def gradients(function: Attention, values: list[Tensor]) -> list[Tensor]:
    weights = torch.linspace(-1, 1, HEADS * ROWS * DIM, dtype=values[0].dtype).view(HEADS, ROWS, DIM)
    return list(torch.autograd.grad((function(*values) * weights).sum(), values[:3]))


def compiled(function: Attention, target: str = "tt") -> Attention:
    options = {} if target == "cpu" else {"target": target}
    made: Attention = torch.compile(function, backend="cuesta", options=options, dynamic=False)
    return made


def kept_bytes() -> int:
    forward, _ = cuesta.report().graphs[-2:]
    assert forward.name == "forward"
    return forward.kept_bytes


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient reads a narrow result, as where dropout comes between them."""
    monkeypatch.setattr("cuesta.frontend.fx_pipelines.read_narrow_softmaxes", lambda *_: None)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("function", [attention, layers, bounded, merged])
def test_gradients(function: Attention, monkeypatch: pytest.MonkeyPatch) -> None:
    values = inputs()
    actual = gradients(compiled(function), values)
    saved = kept_bytes()
    torch.compiler.reset()
    monkeypatch.setattr("cuesta.frontend.fx_pipelines.recompute_softmaxes", lambda *_: None)
    for ours, other in zip(actual, gradients(compiled(function), values), strict=True):
        assert torch.equal(ours, other)
    assert kept_bytes() - saved > SCORES  # two bytes of each score, but for a row's numbers


@pytest.mark.usefixtures("wide")
def test_scores_are_saved_narrow() -> None:
    """Two bytes of each score, and two of each probability, which the next product reads."""
    gradients(compiled(attention), inputs())
    assert kept_bytes() <= 4 * SCORES + REST


@pytest.mark.usefixtures("wide")
def test_masks_are_added_by_the_softmaxs_kernel() -> None:
    gradients(compiled(merged), inputs())
    for graph in cuesta.report().graphs[-2:]:
        assert any({"add", "sub", "exp"} <= set(kernel["ops"]) for kernel in graph.kernels)


def test_scores_are_saved_narrow_with_dropout() -> None:
    """One byte more: whether a probability is kept."""
    gradients(compiled(dropped), inputs())
    assert kept_bytes() <= 5 * SCORES + REST


def test_a_checkpoint_saves_no_scores() -> None:
    values = inputs()
    for ours, eager in zip(gradients(compiled(checkpointed), values), gradients(layers, values), strict=True):
        assert torch.allclose(ours, eager, rtol=0.05, atol=0.05)
    assert kept_bytes() <= REST


@pytest.mark.parametrize(("function", "target"), [(in_f32, "tt"), (read_wide, "tt"), (attention, "cpu")])
def test_the_result_is_saved(function: Attention, target: str) -> None:
    """Where scores take as much, where another product reads the result, and on a CPU."""
    values = inputs()
    for ours, eager in zip(gradients(compiled(function, target), values), gradients(function, values), strict=True):
        assert torch.allclose(ours, eager, rtol=0.05, atol=0.05)
    assert kept_bytes() >= 4 * SCORES


@pytest.mark.usefixtures("wide")
def test_a_mask_of_symbolic_strides() -> None:
    """A part of known sizes of a tensor whose rows' length differs from call to call."""

    def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return attention(q, k, v, mask[:, :ROWS, :ROWS])

    *factors, mask = inputs()
    for extra in (2, 3, 5):
        values = [*factors, torch.cat([mask.expand(1, ROWS + extra, ROWS), mask.new_zeros(1, ROWS + extra, extra)], -1)]
        torch._dynamo.mark_dynamic(values[-1], 1)
        torch._dynamo.mark_dynamic(values[-1], 2)
        ours = gradients(torch.compile(masked, backend="cuesta", options={"target": "tt"}), values)
        for own, eager in zip(ours, gradients(masked, values), strict=True):
            assert torch.allclose(own, eager, rtol=0.05, atol=0.05)
    assert kept_bytes() <= 4 * SCORES + REST + 4 * (ROWS + 5) ** 2
