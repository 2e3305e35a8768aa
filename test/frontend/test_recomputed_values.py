"""What gradients compute again, and what is saved for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F


def _saved(
    function: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor, target: str | None = None
) -> list[torch.Size]:
    """The shapes of what a compiled function saves; its results and gradients are eager's."""
    shapes: list[torch.Size] = []

    def note(tensor: Tensor) -> Tensor:
        shapes.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        found = torch.compile(function, backend="cuesta", options={"target": target} if target else None)(x)
    torch.testing.assert_close(found, function(x), rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(found.sum(), [weight])
    torch.testing.assert_close(gradient, torch.autograd.grad(function(x).sum(), [weight])[0], rtol=1e-4, atol=1e-4)
    return shapes


def test_a_detached_value_is_not_saved_for_its_own_sake() -> None:
    """relu's gradient reads its result detached; it is recomputed from what the product before it left."""
    x, weight = torch.randn(32, 64), torch.randn(64, 64).div(8).requires_grad_()

    def scaled(x: Tensor) -> Tensor:
        y = ((x @ weight).cos() + 0.5).relu()
        return (y * y.mean(1, keepdim=True)).sin() @ weight

    # x and the first product; what the second one multiplies is saved as its gradient reads it, [64, 32].
    assert _saved(scaled, x, weight).count(torch.Size([32, 64])) == 2


@pytest.mark.parametrize("activation", [F.hardswish, F.leaky_relu])
def test_an_activation_is_computed_again(activation: Callable[[Tensor], Tensor]) -> None:
    """Also one that the list of an older torch lacks."""
    x, weight = torch.randn(32, 64), torch.randn(64, 64).div(8).requires_grad_()

    def scaled(x: Tensor) -> Tensor:
        y = activation(x @ weight)
        return (y * y.mean(1, keepdim=True)).sin() @ weight

    assert _saved(scaled, x, weight).count(torch.Size([32, 64])) == 2, "x and the product"


def test_what_takes_long_is_saved() -> None:
    x, weight = torch.randn(32, 64), torch.randn(64, 64).div(8).requires_grad_()
    assert torch.Size([32, 64]) in _saved(lambda x: torch.tanh(x + weight[:32]), x, weight)


def test_on_a_gpu_nothing_takes_longer_to_compute_than_to_read() -> None:
    """A gelu that is spelled out saves its input, and no tanh."""
    x, weight = torch.randn(32, 64), torch.randn(64, 64).div(8).requires_grad_()

    def gelu(x: Tensor) -> Tensor:
        y = x @ weight
        return 0.5 * y * (1 + torch.tanh(0.8 * (y + 0.04 * y**3)))

    shapes = {target: _saved(gelu, x, weight, target).count(torch.Size([32, 64])) for target in ("cpu", "tt")}
    assert shapes == {"cpu": 3, "tt": 2}, "x, the product, and on a CPU the tanh"


def test_what_a_norm_in_f32_reads_is_saved_narrow(
    split: Callable[..., tuple[Callable[..., Tensor], list[torch.fx.Graph]]],
) -> None:
    """Once, though a product's gradient reads it, too."""
    x, weight = torch.randn(32, 64, dtype=torch.bfloat16), torch.randn(64, 64).div(8).bfloat16().requires_grad_()
    scale = torch.randn(64, requires_grad=True)

    def scaled(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
        y = x @ weight
        return F.layer_norm(y.float(), (64,), scale).sin() * (y @ weight)

    compiled, graphs = split(scaled)
    expected = torch.autograd.grad(scaled(x, weight, scale).sum(), [weight, scale])
    torch.testing.assert_close(torch.autograd.grad(compiled(x, weight, scale).sum(), [weight, scale]), expected)
    saved = [node.meta["val"] for node in graphs[0].output_node().args[0][1:]]
    assert [v.dtype for v in saved if v.shape == (32, 64)].count(torch.float32) <= 1  # the norm's result, for sin
    assert len(graphs[0].output_node().args[0]) - 1 == sum(n.op == "placeholder" for n in graphs[1].nodes) - 1
