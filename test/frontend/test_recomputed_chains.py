"""What the backward graph computes anew, element by element, from what is saved anyway."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

Split = Callable[..., tuple[Callable[..., Tensor], list[torch.fx.Graph]]]
X, W = torch.randn(32, 16).bfloat16(), torch.randn(128, 16).div(4).bfloat16().requires_grad_()
SCALE = torch.randn(64, requires_grad=True)


def gated(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Half of an activation goes through a norm in f32, as in a gated MLP under autocast."""
    u, v = F.gelu(F.linear(x, weight)).chunk(2, -1)
    return u * F.layer_norm(v.float(), (64,), scale).cos()


def sloped(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """An activation with a factor that is converted, behind a product of three dims, which is an unsafe view."""
    y = F.linear(x.view(4, 8, 16), weight[:64])
    y = torch.where(y > 0, y, y * scale[0].bfloat16())
    return F.layer_norm(y.float(), (64,), scale)


def grouped(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """A group norm, an activation and a product, as in a diffusion model. Only the norm reads its bias."""
    y = F.group_norm(F.linear(x, weight).view(4, 64, 16).float(), 8, scale.sin(), scale)
    return F.silu(y.bfloat16()) @ weight[:16]


def layered(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    y = F.layer_norm(F.linear(x, weight[:64]).float(), (64,), scale)
    return F.silu(y.bfloat16()) @ weight[:64]


def multiplied(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """A product reads the activation: a library needs it in memory."""
    return F.gelu(F.linear(x, weight)) @ weight * scale[:16]


def chained(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Six ops: too many to be computed anew for what they save."""
    y = F.linear(x, weight)
    for _ in range(6):
        y = (y + 1).sin()
    return F.layer_norm(y[:, :64].float(), (64,), scale)


def weighted(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Narrow products times a factor in f32 for each row, which both graphs compute, times other products. torch saves
    the products by the factor but for the first two, for which the factor is computed close by."""
    factor, total = x[:, :1].float() * 2, x.float()
    for part in range(4):
        filters = F.linear(x, weight[:64] + part) * factor
        nodes = F.linear(total.bfloat16(), weight[64:])
        total = ((filters * nodes) * scale)[:, :16].tanh()
        total = total + total.sin()
    return total


def repeated(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """A matrix for each of 40 capsules, repeated for each of 32 samples, times a vector for each of both."""
    weights = weight.reshape(-1)[:1920].view(1, 40, 16, 3).float()
    vectors = (x[:, :3].float() * scale[:3])[:, None, :, None]
    return (weights @ vectors.expand(32, 40, 3, 1)).squeeze(-1)


def saved(split: Split, function: Callable[..., Tensor], target: str) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """The shapes and types of what is saved of a function whose gradients are eager's."""
    compiled, graphs = split(function, target)
    expected = torch.autograd.grad(function(X, W, SCALE).sum(), [W, SCALE])
    torch.testing.assert_close(torch.autograd.grad(compiled(X, W, SCALE).sum(), [W, SCALE]), expected)
    results = graphs[0].output_node().args[0][1:]
    assert len(results) == sum(n.op == "placeholder" for n in graphs[1].nodes) - 1
    return [(tuple(node.meta["val"].shape), node.meta["val"].dtype) for node in results]


def test_what_a_norm_reads_is_computed_from_the_product(split: Split) -> None:
    """And the norm's result, which the gradient of its cosine reads, from that and its statistics."""
    counts = [saved(split, gated, target).count(((32, 64), torch.float32)) for target in ("cpu", "tt")]
    assert counts == [2, 0]


def test_factors_of_an_activation_count_for_little(split: Split) -> None:
    shapes = {target: [shape for shape, _ in saved(split, sloped, target)] for target in ("cpu", "tt")}
    assert shapes["cpu"].count((4, 8, 64)) == 1 and (4, 8, 64) not in shapes["tt"]


@pytest.mark.parametrize(("function", "shape"), [(grouped, (4, 64, 16)), (layered, (32, 64))])
def test_a_norms_result_is_computed_from_its_statistics(
    split: Split, function: Callable[..., Tensor], shape: tuple[int, ...]
) -> None:
    """A product reads the activation, which stays; the activation's gradient reads the norm's result."""
    on_cpu, on_gpu = (saved(split, function, target) for target in ("cpu", "tt"))
    kind = (shape, torch.bfloat16)
    assert on_cpu.count(kind) == on_gpu.count(kind) + 1
    assert ((64,), torch.float32) in on_gpu


@pytest.mark.parametrize("function", [multiplied, chained])
def test_what_needs_memory_or_many_ops_is_saved(split: Split, function: Callable[..., Tensor]) -> None:
    assert saved(split, function, "tt") == saved(split, function, "cpu")


def test_a_narrow_product_is_saved_for_its_product_with_factors(split: Split) -> None:
    on_cpu, on_gpu = (saved(split, weighted, target) for target in ("cpu", "tt"))
    wide, narrow = ((32, 64), torch.float32), ((32, 64), torch.bfloat16)
    assert (on_cpu.count(wide), on_gpu.count(wide)) == (2, 0)
    assert on_gpu.count(narrow) == on_cpu.count(narrow) + 2


def test_a_weight_that_is_repeated_for_small_products_is_saved_once(split: Split) -> None:
    on_cpu, on_gpu = ([shape for shape, _ in saved(split, repeated, target)] for target in ("cpu", "tt"))
    assert (1280, 3, 16) in on_cpu
    assert (1280, 3, 16) not in on_gpu
